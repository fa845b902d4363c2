"""Verdicts on patches, each from one test run in a new sandbox. Tested code cannot easily forge the report of pytest.

`grading` holds the grader, `cases` a task that is ready for tests, `testing` one test run. Other modules select the
changes that count, parse test logs, and write reports. Makers of tasks, audits and recipes import this package. It
depends on no policy, reward shaping or training. The agent's code never decides how tests run.
"""
