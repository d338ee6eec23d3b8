"""The command line: parse, call, print. Results go to stdout, progress and errors to stderr."""

from gnpool.cli.app import app, main

__all__ = ["app", "main"]
