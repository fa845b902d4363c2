"""Tools that an agent can call: the nine tools of the paper (§3.3) and the shell, one module for each family.

`base` defines a tool and the session that it may change. Scaffolds import the tools. A tool acts on a sandbox through
its interface. It knows neither the policy nor the task.
"""
