"""The processes of a worker's ranks: started, spoken to, watched, and survived."""
