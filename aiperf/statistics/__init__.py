"""Several runs, or the pieces of one: how far they spread, what from, and what that lets one say."""
