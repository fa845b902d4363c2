"""Input and output shared by all packages: files, programs, memory, and HTTP requests.

`files` reads text and JSON, and writes atomically. `programs` runs programs. `http` sends requests. `memory` reads the free
memory. Any package may import this one, which contains nothing about tasks, runs or configurations.
"""
