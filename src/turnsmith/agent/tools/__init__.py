"""What an agent can call: the paper's nine tools (§3.3) and the shell, one file for each family."""
