"""Entry point of `turnsmith` and `python -m turnsmith`."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C during the import, before signals are handled, exits with code 130."""
    try:
        from turnsmith.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
