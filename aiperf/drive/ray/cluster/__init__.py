"""The Ray of a run: started, joined or invited, watched, and ended."""
