"""Public data sets of tasks: one module for each set, and modules that these share.

`base` defines what a set must offer, and `names` lists the sets. Other packages import mostly `recognition`,
`importing`, `exporting` and `directives`. The package reads and writes rows. It runs no tests and starts no sandboxes.
"""
