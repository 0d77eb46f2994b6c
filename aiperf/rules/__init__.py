"""Rules of a run as functions of values: no torch, no Ray, no clock, no file."""
