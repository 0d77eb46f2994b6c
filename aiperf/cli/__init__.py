"""Command line of `python -m aiperf`: verbs and the options of a run."""
