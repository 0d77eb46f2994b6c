"""Audit of simulated runs: laws, a model of the run, and the true work of the workers."""
