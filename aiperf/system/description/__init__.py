"""Full description of a node, differences between nodes, and the form for facts that a program cannot read."""
