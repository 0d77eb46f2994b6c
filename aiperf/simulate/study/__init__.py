"""Studies by simulation: runs on clusters of many sizes with table and picture, and predictions of scores."""
