"""Python environments for the tests of repositories, built once per set of requirements and shared.

Discovers requirements, chooses an interpreter, and builds the environment with uv. Knows nothing of rollouts or grading.
"""
