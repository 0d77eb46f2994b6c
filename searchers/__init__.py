"""Search of network architectures and tuning of hyperparameters, as functions of the history of a run."""
