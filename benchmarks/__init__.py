"""What the project claims about speed, measured: each script prints its table and names the machine."""
