"""Processes of a worker's ranks: start, messages, supervision and replacement. Ranks train one network together."""
