"""Journal of a run (the log of its events), the types of the events, and the messages between driver and workers."""
