"""What keeps a run out of the ranking."""
