"""Tools that an agent can call: the nine tools of the paper (§3.3) and the shell, one module for each family.

`base` defines `Tool`, and `Session`, which holds the tools' state. A tool acts on the sandbox, and does not depend on the
policy or the task.
"""
