"""The nine tools of the paper and the shell (paper §3.3); one file for each family, one table in `toolbox`."""
