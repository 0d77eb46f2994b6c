"""`python -m aiperf preflight`: check the machines of a run without starting it."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.cli.arguments import add_json
from aiperf.cli.output import print_result
from aiperf.cli.phases import Phases
from aiperf.files import given_path

if TYPE_CHECKING:
    from aiperf.config import RunConf
    from aiperf.journal.events import NodeChecked
    from aiperf.page.section import Part

DESCRIPTION = """Checks the machines of a run with these options: versions, data, disk, clocks, accelerators, matrix
product, memory, all-reduce in pairs and over all nodes. Without a cluster, it checks this machine (matrix
product and memory with preflight.probes=full). With a cluster, call it where the run's driver would run: in
an allocation of the scheduler, or on the head of an existing Ray cluster. Exit status: 0 no faults, 1 a node
has a fault, 2 nothing was checked."""
EXAMPLES = (
    "dataset=imagenet dataset.root=/data/imagenet preflight.probes=full",
    "+cluster=ray cluster.address=auto --json",
)
OPTIONS = "[GROUP=CHOICE …] [OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser, ": every repetition of every probe")
    parser.add_argument(
        "--folder",
        type=given_path,
        metavar="FOLDER",
        help="folder through which nodes join: `python -m aiperf join FOLDER`",
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli import batch
    from aiperf.cli.site import words_with_site
    from aiperf.config import configure
    from aiperf.planning.plan import check_options, folder_of, make_folder
    from cluster.place import SchedulerConf

    options = words_with_site(options)
    conf = configure(options)
    check_options(conf)
    # faulty nodes are shown too, even if a run would not use them
    probes = "auto" if conf.preflight.probes == "none" else conf.preflight.probes
    conf = replace(conf, name=conf.name or "preflight", preflight=replace(conf.preflight, broken="keep", probes=probes))
    folder: Path | None = arguments.folder
    if isinstance(conf.cluster, SchedulerConf) and folder is None:
        written = [] if arguments.json_file is None else ["--out", str(arguments.json_file.absolute())]
        verb = ["preflight", *(["--json"] if arguments.json else []), *written, "--folder"]
        return batch.run_verb_here(conf, conf.cluster, options, verb)
    if conf.cluster is None or folder is not None:
        return _print(_check(conf, folder), arguments)
    folder = make_folder(folder_of(conf, time.time()).absolute())
    try:
        return _print(_check(conf, folder), arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check(conf: RunConf, folder: Path | None) -> Sequence[NodeChecked]:
    from aiperf.drive.machines import check, machines

    with Phases().steps("checking nodes") as show:
        if conf.cluster is None:
            return check(conf, folder, show).events
        with machines(conf, folder):
            return check(conf, folder, show).events


def _print(checks: Sequence[NodeChecked], arguments: argparse.Namespace) -> int:
    import msgspec

    print_result("aiperf-preflight", {"checks": msgspec.to_builtins(checks)}, parts(checks), arguments)
    return 1 if any(check.faults for check in checks) else 0


def parts(checks: Sequence[NodeChecked]) -> tuple[Part, ...]:
    """Return the table of the nodes, their faults, and notes on all nodes."""
    from aiperf.page.section import Items
    from aiperf.report.nodes import nodes
    from aiperf.report.sections.system import node_name, node_table
    from aiperf.system.of_run import in_words, system_description

    checked, system = nodes(checks), system_description({}, checks)
    faults = tuple(f"{node_name(node)}: {fault}" for node in checked for fault in node.faults)
    notes = (*in_words(system.differences, system.nodes), *sorted({note for node in checked for note in node.notes}))
    return node_table(checked), Items(faults), Items(tuple(f"note: {note}" for note in notes))
