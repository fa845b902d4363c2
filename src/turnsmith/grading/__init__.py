"""Verdicts on patches: pristine sandboxes, selection of files, one sealed test run, log parsers, and reports of predictions.

`grading` holds the grader, `cases` a task that is ready for tests, `testing` one run of tests. Makers of tasks, audits
and recipes import them. The package knows no policy, no reward shaping and no training. The agent's code never decides
how tests run.
"""
