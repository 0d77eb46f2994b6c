"""Two runs side by side: what differs between them, and whether the difference is real."""
