"""`python -m turnsmith`."""

from turnsmith.cli import main

main()
