"""Rules of the ranking and of other divisions (sets of rules for comparable runs)."""
