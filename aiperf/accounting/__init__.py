"""Score of a run, its 95 % interval and its use of time, from the journal."""
