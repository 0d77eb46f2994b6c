"""Statistics of runs: uncertainty of a figure, spread between runs and its causes, and significance of differences."""
