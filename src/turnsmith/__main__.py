"""Entry point of `turnsmith` and `python -m turnsmith`."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C may come while it is imported, before it can handle signals."""
    try:
        from turnsmith.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
