"""Network of a graph (the architecture of a trial) as a torch module, and its weights."""
