"""What the events change in a Run, in place: a file for each part of it."""
