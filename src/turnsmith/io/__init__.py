"""Files, programs and HTTP: text and JSON lines, calls of programs, requests with retries.

`http` sends requests. Any part may import them. The package knows no task, run or configuration.
"""
