"""Input and output shared by all packages: files, programs, and HTTP requests.

`files` reads text and JSON, and writes atomically. `programs` runs programs. `http` sends requests. Any package may import
this one, which contains nothing about tasks, runs or configurations.
"""
