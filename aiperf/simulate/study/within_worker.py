"""Modelled scaling of one worker from 1 to all its accelerators: `python -m aiperf rehearse --within-worker`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path

import msgspec

from aiperf.atomic_files import replace_file
from aiperf.config import RunConf
from aiperf.data.description import DataSet
from aiperf.page.section import Table, numbers, table
from aiperf.page.terminal import table_lines
from aiperf.planning.plan import make_folder
from aiperf.scaling.efficiency import points_lost
from aiperf.scaling.elsewhere import FORMAT, PREDICTION
from aiperf.simulate.model.profile import FASTEST_LINK, GRADIENT_BYTES, calibrated, pace, profile_of
from aiperf.simulate.model.simulated_executor import speed_of_host
from aiperf.simulate.session import Opening, open_run
from aiperf.simulate.study.rehearsal import configured
from aiperf.units import count, share
from cluster.simulated import SimulatedConf
from morphism import cost_of

LINES = ("compute", "stragglers", "exchange", "overlap", "input", "evaluation")
"""Parts of the time."""


@dataclass(frozen=True, slots=True)
class ModelledSize:
    accelerators: int
    batch: int
    """Images per step of one accelerator."""
    seconds_per_image: dict[str, float]
    """Accelerator-seconds per training image, by part of the time (LINES)."""
    efficiency: float
    """Time of the fewest accelerators ÷ this time, with the evaluation left out."""
    efficiency_with_evaluation: float
    points_lost: dict[str, float]
    """Percentage points by part of the time (LINES). Their sum is 100·(1 − efficiency_with_evaluation)."""


def main(options: list[str]) -> int:
    """Execute `rehearse --within-worker`: print tables of weak and strong scaling, write them as JSON, print the folder."""
    conf = configured([*options, "cluster.workers=1"])
    opening = opening_of(conf)
    print(
        f"one simulated worker of up to {count(opening.conf.accelerators)} accelerators, {opening.first.dataset['name']}, "
        f"seed {conf.seed}: a model, no work is done, never ranked"
    )
    tables = {"weak": weak(opening), "strong": strong(opening)}
    for form, sizes in tables.items():
        print("\n".join(table_lines(size_table(form, sizes))))
    content = {"format": FORMAT, **{form: [asdict(each) for each in sizes] for form, sizes in tables.items()}}
    folder = make_folder(Path(conf.runs) / (conf.name or "within-worker"))
    replace_file(folder / PREDICTION, msgspec.json.format(msgspec.json.encode(content)))
    print(folder)
    return 0


def opening_of(conf: RunConf) -> Opening:
    """Return a simulated run of one worker that is ready to start, with the configured accelerators and network."""
    asked = conf.cluster
    assert isinstance(asked, SimulatedConf)
    if asked.profile is None:
        return open_run(conf)
    measured = calibrated(asked, profile_of(asked.profile, conf.runs))
    own = replace(measured, profile=None, accelerators=asked.accelerators)
    if asked.topology != "layers" or measured.links[0].bytes_per_second == FASTEST_LINK:
        own = replace(own, links=asked.links, overlap=asked.overlap)
    return open_run(replace(conf, cluster=own))


def weak(opening: Opening) -> tuple[ModelledSize, ...]:
    """Return the modelled times for numbers of accelerators from 1 to all, with a constant batch of each one (weak scaling)."""
    batch = opening.plan.space.default_batch_size
    return _compared(opening, [(conf, batch) for conf in _sizes(opening.conf)])


def strong(opening: Opening) -> tuple[ModelledSize, ...]:
    """Return the modelled times for numbers of accelerators from 1 to all, with a constant global batch (strong scaling)."""
    whole = opening.plan.space.default_batch_size
    return _compared(
        opening,
        [(conf, whole // conf.accelerators) for conf in _sizes(opening.conf) if whole % conf.accelerators == 0],
    )


def size_table(form: str, sizes: Sequence[ModelledSize]) -> Table:
    """Return the table of `sizes`, one row per size. `form`: 'weak' or 'strong'."""
    kind = "constant batch of each accelerator" if form == "weak" else "constant global batch"
    columns = (
        numbers("accelerators", [each.accelerators for each in sizes], count),
        numbers("batch", [each.batch for each in sizes], str),
        numbers("of linear", [each.efficiency for each in sizes], lambda value: share(value, 2)),
        numbers("with eval.", [each.efficiency_with_evaluation for each in sizes], lambda value: share(value, 2)),
        *(numbers(line, [each.points_lost[line] for each in sizes], "{:+z.2f}".format) for line in LINES),
    )
    return table(form, f"{form} scaling, {kind}. Points lost by line, with evaluation:", columns)


def _sizes(conf: SimulatedConf) -> list[SimulatedConf]:
    """Return the worker with 1, 2, 4, … accelerators and its own number. A torus is halved along its longest edge."""
    if conf.topology != "torus":
        numbers = [2**n for n in range(conf.accelerators.bit_length()) if 2**n < conf.accelerators]
        return [replace(conf, accelerators=number) for number in (*numbers, conf.accelerators)]
    sizes = [conf]
    while (longest := max(sizes[0].shape)) % 2 == 0:
        shape = list(sizes[0].shape)
        shape[shape.index(longest)] = longest // 2
        sizes.insert(0, replace(conf, accelerators=prod(shape), shape=shape))
    if sizes[0].accelerators > 1:
        sizes.insert(0, replace(conf, accelerators=1, shape=[1] * len(conf.shape)))
    return sizes


def _compared(opening: Opening, sizes: Sequence[tuple[SimulatedConf, int]]) -> tuple[ModelledSize, ...]:
    seconds = [_seconds(opening, conf, batch) for conf, batch in sizes]
    return tuple(
        ModelledSize(
            accelerators=conf.accelerators,
            batch=batch,
            seconds_per_image={line: float(each) for line, each in own.items()},
            efficiency=float(_training(seconds[0]) / _training(own)),
            efficiency_with_evaluation=float(sum(seconds[0].values()) / sum(own.values())),
            points_lost=points_lost(seconds[0], own),
        )
        for (conf, batch), own in zip(sizes, seconds, strict=True)
    )


def _training(own: dict[str, Fraction]) -> Fraction:
    return sum((seconds for line, seconds in own.items() if line != "evaluation"), Fraction(0))


def _seconds(opening: Opening, conf: SimulatedConf, batch: int) -> dict[str, Fraction]:
    """Return accelerator-seconds per training image by line, exact sums of the model's times."""
    data: DataSet = opening.plan.dataset
    figures, images = cost_of(opening.plan.network), (data.training_images, data.validation_images)
    hosts = -(-conf.accelerators // conf.accelerators_per_host)
    slowest = min(speed_of_host(opening.plan.conf.seed, host, conf.speed_spread) for host in range(hosts))
    own, even = (pace(conf, figures, batch, speed, *images) for speed in (slowest, 1.0))
    exchange = conf.all_reduce_seconds(GRADIENT_BYTES * figures.parameters)
    compute = even.busy_seconds - even.communication_seconds
    of_step = {
        "compute": compute,
        "stragglers": own.busy_seconds - own.communication_seconds - compute,
        "exchange": exchange,
        "overlap": own.communication_seconds - exchange,
        "input": own.input_seconds,
    }
    return {line: Fraction(seconds) / batch for line, seconds in of_step.items()} | {
        "evaluation": Fraction(own.validation_seconds) * conf.accelerators / data.training_images
    }
