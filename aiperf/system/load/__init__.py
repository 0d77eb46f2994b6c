"""Processor load of a host: this run's own processes and other programs."""
