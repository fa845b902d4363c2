"""Tools of the agent: the paper's nine (§3.3) and the shell, one file per family."""
