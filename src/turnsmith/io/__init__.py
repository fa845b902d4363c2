"""Input and output shared by all parts: files, programs, and requests over HTTP.

`files` reads text and JSON, and writes atomically. `programs` runs programs. `http` sends requests. Any part may import
them. The package knows no task, run or configuration.
"""
