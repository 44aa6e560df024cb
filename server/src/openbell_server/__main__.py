"""Runs the command line: python -m openbell_server."""

from openbell_server.cli import main

if __name__ == "__main__":
    main()
