"""`python -m aiperf sweep`: repeat a run, or run several settings in turn, one run after the other in one folder."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from aiperf.cli.arguments import add_number
from aiperf.errors import AiperfError, BadConfiguration, conflict

DESCRIPTION = """Starts ordinary runs one after the other. Each round has one run of every setting. The order of the settings
alternates from round to round, and each run has its own seed. The runs are in one folder, RUNS/sweep-…, and
its name follows from the command. The same command continues an interrupted sweep: runs that ended are kept.
A run that was cut off is moved to the folder `interrupted` and started again.

Exit status: 0 every started run has a valid score, 1 one has none, 2 one failed, 130 after Ctrl-C."""
EXAMPLES = (
    "--repeat 5 schedule.duration_seconds=70",
    "--repeat 3 --over batch.default=32,64 --over trainer.precision=fp32,bf16",
    "--over 'batch.default,trainer.learning_rate=32:0.05,64:0.1'",
)
OPTIONS = "[OPTION=VALUE …]"
REFUSED = ("announcement", "announcement_log", "dry_run", "name", "resume", "resume_until")
"""Options that are for one run only, or that a sweep sets itself."""
INTERRUPTED = "interrupted"
"""Folder of runs that were cut off, and the reason of such a run's end."""
LONGEST_NAME = 50
"""Maximum number of characters of a run's option `name`."""

Setting = tuple[str, ...]
"""Words OPTION=VALUE of one setting."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a sweep (series of runs), with its name, setting (OPTION=VALUE words) and seed."""

    name: str
    """Value of the option `name`, unique in the sweep."""
    setting: Setting
    seed: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_number(parser, "--repeat", "runs of each setting", least=1, most=1000, default=5)
    parser.add_argument(
        "--over",
        metavar="OPTION=A,B",
        action="append",
        default=[],
        help="run with each of these values; repeated: with all combinations; 'a,b=1:2,3:4' sets a and b together",
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.site import words_with_site

    settings = settings_of(arguments.over)
    options = words_with_site(options, ["name", *(word.partition("=")[0] for words in settings for word in words)])
    given = {name: value for name, _, value in (word.partition("=") for word in options)}
    require_one_use(given, settings)
    check(options, settings)
    runs = planned(settings, arguments.repeat, _seed(given))
    folder = folder_of(given.get("runs", "runs"), options, arguments.over, arguments.repeat)
    words = [word for word in options if word.partition("=")[0] not in ("runs", "seed")]
    return _execute(folder, words, runs)


def settings_of(over: Sequence[str]) -> list[Setting]:
    """Return all combinations of the values of --over, each as a tuple of words OPTION=VALUE. Without values, one empty tuple.

    `over`: texts 'OPTION=A,B', or 'OPTION,OPTION=A:B,C:D' for options that change together.

    >>> settings_of(["a=1,[2,3]", "b,c=4:5,6:7"])[:2]
    [('a=1', 'b=4', 'c=5'), ('a=1', 'b=6', 'c=7')]

    Raises:
        BadConfiguration: a value is missing or given twice, or the numbers of options and of the parts of a value differ.
    """
    return [tuple(word for part in parts for word in part) for parts in product(*map(_values, over))]


def _values(word: str) -> list[Setting]:
    names, _, values = word.partition("=")
    options = names.split(",")
    settings: list[Setting] = []
    for value in _split(values):
        parts = value.split(":") if len(options) > 1 else [value]
        if len(parts) != len(options) or not all((*options, *parts)):
            raise BadConfiguration(
                f"--over takes OPTION=A,B or OPTION,OPTION=A:B,C:D, but found {word!r}: give each option one value"
            )
        settings.append(tuple(f"{option}={part}" for option, part in zip(options, parts, strict=True)))
    if len(set(settings)) < len(settings):
        raise BadConfiguration(f"--over takes each value once, but found {word!r}: use --repeat for equal runs")
    return settings


def _split(values: str) -> list[str]:
    return re.split(r",(?![^\[{]*[\]}])", values)


def require_one_use(given: dict[str, str], settings: Sequence[Setting]) -> None:
    for words in settings:
        for name, count in Counter(word.partition("=")[0] for word in words).items():
            if name in given or count > 1 or name in ("runs", "seed"):
                raise BadConfiguration(
                    f"--over takes options that are set nowhere else in the command, but found {name!r}: give it once"
                )
    for name in (*given, *(word.partition("=")[0] for words in settings for word in words)):
        if name in REFUSED:
            raise conflict("a sweep, which starts new runs,", name, "Leave it out")


def check(options: Sequence[str], settings: Sequence[Setting]) -> None:
    """Check the configuration of every setting of a sweep before the first run."""
    from aiperf.cli.run import plan_here
    from aiperf.config import configure, require_options
    from aiperf.planning.plan import check_options
    from cluster.place import SchedulerConf

    for setting in settings:
        words = [*options, *setting]
        require_options(words)
        conf = configure(words)
        if isinstance(conf.cluster, SchedulerConf):
            fix = "It waits for each run: start it within a job, with +cluster=ray"
            raise conflict("a sweep", f"+cluster={conf.cluster.kind}", fix)
        if conf.cluster is None:
            plan_here(conf, words)
        else:
            check_options(conf)


def _seed(given: dict[str, str]) -> int:
    value = given.get("seed", "0")
    if not value.isdecimal():
        raise BadConfiguration(f"the seed of the first run is a whole number, at least 0, but found seed={value}")
    return int(value)


def planned(settings: Sequence[Setting], repeat: int, seed: int) -> list[PlannedRun]:
    """Return the runs of a sweep in their order, each with its name and its seed. All settings are used once in each round.

    `settings`: OPTION=VALUE words of each setting. `repeat`: number of rounds. Every second round has the reverse order.
    `seed`: seed of the first run. Each further run has the next number.

    >>> [(run.name, run.seed) for run in planned([("a=1",), ("a=2",)], 2, 7)]
    [('01-a_1', 7), ('02-a_2', 8), ('03-a_2', 9), ('04-a_1', 10)]
    """
    ordered = [setting for turn in range(repeat) for setting in (settings if turn % 2 == 0 else settings[::-1])]
    width = max(2, len(str(len(ordered))))
    return [
        PlannedRun(f"{number:0{width}}{_label(setting)}"[:LONGEST_NAME], setting, seed + number - 1)
        for number, setting in enumerate(ordered, 1)
    ]


def _label(setting: Setting) -> str:
    """Return '-' and the settings with the last part of each option's name, such as '-ranks_2-collective_torch'."""
    short = [f"-{name.rpartition('.')[2]}={value}" for name, _, value in (word.partition("=") for word in setting)]
    return re.sub(r"[^\w.-]+", "_", "".join(short), flags=re.ASCII)


def folder_of(runs: str, options: Sequence[str], over: Sequence[str], repeat: int) -> Path:
    """Return the path of a sweep's folder, RUNS/sweep-HASH."""
    from aiperf.files import given_path

    digest = hashlib.sha256(json.dumps([sorted(options), list(over), repeat]).encode()).hexdigest()
    return given_path(runs) / f"sweep-{digest[:12]}"


def _execute(folder: Path, words: Sequence[str], runs: Sequence[PlannedRun]) -> int:
    from aiperf import interrupts
    from aiperf.cli.output import print_line
    from aiperf.sanitize import sanitize
    from aiperf.shell_command import command, option

    folder.mkdir(parents=True, exist_ok=True)
    is_valid = True
    for number, run in enumerate(runs, 1):
        title = f"run {number} of {len(runs)}: {sanitize(' '.join(run.setting) or 'repeat')}, seed {run.seed}"
        finished = finished_run(folder, run.name)
        if finished is not None:
            print_line(f"{title}: finished before, {finished.name}")
            continue
        print_line(title)
        status = _start([*words, *run.setting, option("runs", folder), f"name={run.name}", f"seed={run.seed}"])
        if interrupts.received() is not None:
            print_line(f"sweep interrupted in run {number} of {len(runs)}. The same command continues it")
            return 128 + (interrupts.received() or signal.SIGINT)
        if status not in (0, 1):
            raise AiperfError(
                f"each run of a sweep must end with a report, but run {number} of {len(runs)} ended with exit status "
                f"{status}: remove the cause above. The same command then continues the sweep"
            )
        is_valid = is_valid and status == 0
    print_line(f"sweep: {len(runs)} runs in {folder}")
    for setting in dict.fromkeys(run.setting for run in runs):
        alike = [finished_run(folder, run.name) for run in runs if run.setting == setting]
        print_line(f"  compare: {command('compare', '--repeats', *(str(path) for path in alike if path is not None))}")
    return 0 if is_valid else 1


def finished_run(folder: Path, name: str) -> Path | None:
    """Return the folder of the finished run of a sweep with this name. None if the run has not finished."""
    from aiperf.drive.session import require_free
    from aiperf.journal.events import RunEnded
    from aiperf.journal.journal import NAME, read

    for path in sorted(folder.glob(f"*-{name}")) + sorted(folder.glob(f"*-{name}.[0-9]*")):
        if (path / NAME).is_file():
            require_free(path)
            last = deque(read(path), maxlen=1)
            if last and isinstance(last[0], RunEnded) and last[0].reason != INTERRUPTED:
                return path
        (folder / INTERRUPTED).mkdir(exist_ok=True)
        path.rename(_free(folder / INTERRUPTED / path.name))
    return None


def _free(path: Path) -> Path:
    from aiperf.planning.plan import candidates

    return next(each for each in candidates(path) if not each.exists())


def _start(words: Sequence[str]) -> int:
    """Start a run as a process and wait for its end. Ctrl-C ends the run cleanly."""
    from aiperf import interrupts
    from aiperf.reader_processes import package_environment

    process = subprocess.Popen([sys.executable, "-m", "aiperf", *words], env=package_environment())

    def end() -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)

    with interrupts.noted(end):
        return process.wait()
