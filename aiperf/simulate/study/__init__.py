"""Studies by simulation: rehearsals of many sizes, their table and picture, and profiles of real runs."""
