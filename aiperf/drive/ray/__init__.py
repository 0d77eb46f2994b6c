"""Use of Ray for the workers of a run: the cluster, the actors on its nodes, and the messages between them."""

import os

from aiperf.system.samplers import hip_selection

os.environ.update(hip_selection(os.environ))
