"""Ray as the executor: the cluster, its workers as actors, and the words between them."""
