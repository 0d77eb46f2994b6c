"""Folders of runs for lists: real journals of older releases, and simulated runs, which take a fraction of a second each."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiperf.config import configure
from aiperf.journal.journal import NAME
from aiperf.simulate.session import drive, open_run, world_of

GOLDEN = Path(__file__).parent.parent / "golden"
TINY = (
    "+cluster=simulated",
    *("cluster.accelerators=1", "cluster.join_seconds=2", "cluster.compile_seconds=1", "cluster.build_seconds=0.5"),
    *("dataset=synthetic", "dataset.image=8", "dataset.channels=1", "dataset.training_images=400"),
    *("dataset.validation_images=100", "start=digits_small", "budget.batch=8", "searcher=random", "hpo=off"),
    *("schedule.duration_seconds=120", "schedule.warmup_seconds=20", "schedule.epochs=[2]"),
)
LONG = "a name of three hundred letters " * 9 + "and its end."
RIGHT_TO_LEFT = "ריצה של מחשב־על \u202egnidaelsim"
EMOJI = "🚀🏆 fastest 👩‍🔬 run"
SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
FORMULA = '=HYPERLINK("http://evil.example","open me")'
MARKUP = "| a | b |\n## owned [link](http://evil.example) `code` **bold** www.evil.example"
HOSTILE = (LONG, RIGHT_TO_LEFT, EMOJI, SCRIPT, FORMULA, MARKUP)


def golden(folder: Path, name: str) -> Path:
    """Create a folder with a golden journal."""
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN / f"{name}.jsonl", folder / NAME)
    return folder


def simulated(
    folder: Path, name: str, *, seed: int = 0, workers: int = 1, flops: float = 2e9, others: Sequence[str] = ()
) -> Path:
    """A folder with a simulated run."""
    folder.mkdir(parents=True)
    words = [*TINY, f"cluster.workers={workers}", f"cluster.flops={flops:g}", f"seed={seed}", *others]
    opening = open_run(configure(words))
    first = msgspec.structs.replace(opening.first, run=name)  # a configuration's name may not be just any text
    drive(world_of(opening), first, folder / NAME)
    return folder


def copied(run: Path, to: Path, lines: int | None = None) -> Path:
    """Copy a journal to another folder, completely or only its first lines."""
    to.mkdir(parents=True)
    whole = (run / NAME).read_bytes().splitlines(keepends=True)
    (to / NAME).write_bytes(b"".join(whole[:lines]))
    return to


def damaged(run: Path, to: Path) -> Path:
    """A copy with one digit changed in the middle."""
    copied(run, to)
    lines = (to / NAME).read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    lines[middle] = lines[middle].replace(b'"at":', b'"at":1', 1)
    (to / NAME).write_bytes(b"".join(lines))
    return to
