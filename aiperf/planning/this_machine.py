"""A worker on the machine where this runs: the one plan that is made of it is that of a run which takes place here."""

from __future__ import annotations

from dataclasses import replace

from aiperf.config import RunConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.planning.buildable import require_packages
from aiperf.planning.worker_shape import accelerators_declared, shape_of
from aiperf.system.describe import describe


def this_machine(conf: RunConf) -> WorkerShape:
    """A worker on the machine where this runs: what a dry run reckons with, and a run inside the driver's process.

    Raises:
        BadConfiguration: this machine holds no such worker.
    """
    system = describe()
    declared = accelerators_declared(conf.accelerators_per_worker)
    if declared is not None and declared > len(system.accelerators):
        raise BadConfiguration(
            f"on one machine a worker has at most its accelerators; found accelerators_per_worker={declared}, and this machine "
            f"shows {len(system.accelerators)}: leave it out to take all"
        )
    trainer = replace(conf.trainer, ranks=1) if conf.executor == "inline" else conf.trainer
    accelerators = declared or len(system.accelerators)
    for option, count in (("ranks", trainer.ranks), ("threads", trainer.threads)):
        if count is not None and count > system.usable_processors and not accelerators:
            raise BadConfiguration(
                f"without accelerators each rank and thread has a processor; found trainer.{option}={count}, and this machine "
                f"has {system.usable_processors} to use: take at most so many, or leave it out"
            )
    require_packages(conf, accelerators)
    source = f"this machine, {system.host}"
    return shape_of(system, accelerators, system.usable_processors, trainer, conf.budget.memory_bytes, source)
