"""HTTP requests with retries.

`http` sends requests. Any part may import it. The package knows no task, run or configuration.
"""
