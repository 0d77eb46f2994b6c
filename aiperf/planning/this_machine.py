"""Shape of a worker on this machine, for runs that take place here."""

from __future__ import annotations

from dataclasses import replace

from aiperf.config import RunConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.planning.buildable import require_packages
from aiperf.planning.worker_shape import accelerators_declared, shape_of
from aiperf.system.describe import describe_usable


def this_machine(conf: RunConf) -> WorkerShape:
    """Return the shape of a worker on this machine, for a dry run and for a run in the driver's process.

    Raises:
        BadConfiguration: this machine cannot hold such a worker.
    """
    system = describe_usable()
    declared = accelerators_declared(conf.accelerators_per_worker)
    if declared is not None and declared > len(system.accelerators):
        raise BadConfiguration(
            f"a worker on one machine can have at most the accelerators that this process may use; found "
            f"accelerators_per_worker={declared}, and {len(system.accelerators)} are usable: leave it out to use all"
        )
    trainer = replace(conf.trainer, ranks=1) if conf.executor == "inline" else conf.trainer
    accelerators = declared or len(system.accelerators)
    for option, count in (("ranks", trainer.ranks), ("threads", trainer.threads)):
        if count is not None and count > system.usable_processors and not accelerators:
            raise BadConfiguration(
                f"without accelerators each rank and thread needs a processor; found trainer.{option}={count}, and this "
                f"machine has {system.usable_processors} usable: use at most that number, or leave it out"
            )
    require_packages(conf)
    source = f"this machine, {system.host}"
    return shape_of(system, accelerators, system.usable_processors, trainer, conf.budget.memory_bytes, source)
