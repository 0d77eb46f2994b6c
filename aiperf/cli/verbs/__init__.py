"""Verbs of the command line, one module each (`VerbModule` in aiperf/cli/arguments.py)."""
