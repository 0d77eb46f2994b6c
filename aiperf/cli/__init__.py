"""The words after `python -m aiperf`: verbs, each a file, and the options of a run."""
