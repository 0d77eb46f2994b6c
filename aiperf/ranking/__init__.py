"""Rules of the ranking and of other divisions."""
