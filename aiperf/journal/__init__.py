"""What is said and what is written: events, messages between driver and workers, and the file that holds a run."""
