"""Search of network architectures and tuning of hyperparameters, as functions of the history of a run.

The entry point is `searchers.propose.propose(searcher, history, request, tuner)`.
"""
