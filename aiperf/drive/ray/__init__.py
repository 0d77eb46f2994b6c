"""Ray as the executor: the cluster, its workers as actors, and the words between them.

The selection of AMD devices is completed here, since Ray reads it when it is imported.
"""

import os

from aiperf.system.samplers.attach import hip_selection

os.environ.update(hip_selection(os.environ))
