"""Computation of a run's score, its 95 % interval and its use of time from the journal (event file of the run)."""
