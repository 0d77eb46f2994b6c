"""Load of a host: the run's own processes and those of others."""
