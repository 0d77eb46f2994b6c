"""A simulated cluster: the same driver, rules and searchers under a virtual clock, with faults by the thousand."""
