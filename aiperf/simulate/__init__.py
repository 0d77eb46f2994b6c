"""Simulated cluster: the real driver, rules and searchers under a virtual clock, with injected faults."""
