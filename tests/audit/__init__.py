"""Audit of simulated runs: laws, a shadow model of the journal, and the true work of the workers."""
