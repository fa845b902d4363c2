"""`turnsmith`, and `python -m turnsmith`."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C may come before it is there to catch it: while it is imported."""
    try:
        from turnsmith.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
