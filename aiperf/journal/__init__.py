"""Events, messages between driver and workers, and the journal file of a run."""
