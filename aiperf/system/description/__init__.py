"""What a node is made of, as it was read; what differs between nodes; and the form for what no program can know."""
