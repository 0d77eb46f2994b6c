"""Whether a journal can be true: everything in it that follows from the rest, worked out again and compared."""
