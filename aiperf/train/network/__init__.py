"""Network of a graph as a torch module, and its weights."""
