"""Verbs of the command line by group, one module each (`VerbModule` in aiperf/cli/arguments.py)."""
