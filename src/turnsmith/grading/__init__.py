"""Verdicts on patches: new sandboxes, selection of files, one sealed test run, log parsers, and reports of predictions.

`grading` holds the grader, `cases` a task that is ready for tests, `testing` one run of tests. Makers of tasks, audits
and recipes import these modules. The package depends on no policy, reward shaping or training. The agent's code never decides
how tests run.
"""
