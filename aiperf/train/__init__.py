"""Training: the only floor of the project that knows torch."""
