"""Use of Ray for the workers of a run: the cluster, the actors on its nodes, and the messages between them.

The selection of AMD devices is completed here, since Ray reads it when it is imported.
"""

import os

from aiperf.system.samplers import hip_selection

os.environ.update(hip_selection(os.environ))
