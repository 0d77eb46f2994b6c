"""Statistics of runs: uncertainty, spread and its causes, and significance of differences."""
