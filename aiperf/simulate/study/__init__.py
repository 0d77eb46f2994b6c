"""Studies by simulation: rehearsals of many sizes with table and picture, and comparisons with real runs."""
