"""Announcement of runs before they begin, signatures, and submission files of runs for others, who inspect them."""
