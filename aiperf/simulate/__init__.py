"""Simulated cluster: the real main loop, rules and searchers under a virtual clock, with simulated faults."""
