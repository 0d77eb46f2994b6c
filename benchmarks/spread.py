"""How far the scores of equal runs lie apart on one machine, and how far those of runs that follow one journal.

    python -m benchmarks.spread FOLDER [--runs 5] [--seconds 70] [--warmup 15] [--seed 0] [key=value …]

Real runs of the quick schedule, of two kinds in turn: equal ones (the same seed and options, each with its own search), and
ones that follow the first of these (`follow=`: the same networks, batches, seeds and epochs). What the two kinds share is the
machine; what an equal run has besides is the search. Beside each run: the machine's load while it went on. Figures stand in
FOLDER/spread.json after each run; called again with the same folder it goes on with the runs that are missing.

CV: standard deviation (n − 1) ÷ mean. Operations per trial: counted operations of the finished trials ÷ their number.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.comparison.compare import repeats
from aiperf.comparison.sides import side
from aiperf.comparison.text import repeats_lines
from aiperf.errors import AiperfError
from aiperf.journal.events import RunEnded, TrialFinished, TrialProposed
from aiperf.journal.journal import NAME, read
from benchmarks.machine_load import watched
from benchmarks.pairs import describe_machine

KINDS = ("equal", "follow")
START_SECONDS = 240.0
"""Beyond its own length, after which a run is ended: Ray's start, preflight, the report."""
FIGURES = ("score", "error", "operations_per_trial", "trials", "busy_share")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run."""

    kind: str
    number: int
    """From 1, of its kind."""
    score: float | None
    """FLOPS. None: it has none, as the report says; so with the two others."""
    error: float | None
    operations_per_trial: float
    trials: int
    """Finished."""
    busy_share: float | None
    end_reason: str
    seconds: float
    """The run's, by its journal."""
    trial_seconds: dict[str, float]
    """By fingerprint: how long each finished trial was trained, start-up of its attempt left out."""
    trial_flops: dict[str, float]
    """By fingerprint: its counted operations."""
    load: dict[str, Any]
    """Of the machine, while it went on."""
    folder: str


def outcome(folder: Path, kind: str, number: int, load: dict[str, Any]) -> Outcome:
    """Of a run that has ended."""
    events = list(read(folder))
    log = work_log(events)
    figures, rows = score(log), log.intervals
    prints = {event.number: event.fingerprint for event in events if isinstance(event, TrialProposed)}
    finished = [event.trial for event in events if isinstance(event, TrialFinished)]
    flops = {trial: float(rows.flops[rows.trial == trial].sum()) for trial in finished}
    seconds = {trial: float((rows.end - rows.start)[rows.trial == trial].sum()) for trial in finished}
    ended = events[-1]
    return Outcome(
        kind=kind,
        number=number,
        score=figures.flops_per_second,
        error=figures.error,
        operations_per_trial=sum(flops.values()) / max(1, len(finished)),
        trials=len(finished),
        busy_share=figures.busy_share,
        end_reason=ended.reason if isinstance(ended, RunEnded) else "none",
        seconds=ended.at,
        trial_seconds={prints[trial]: seconds[trial] for trial in finished},
        trial_flops={prints[trial]: flops[trial] for trial in finished},
        load=load,
        folder=str(folder),
    )


def begin(folder: Path, name: str, words: Sequence[str], seconds: float) -> tuple[Path, dict[str, Any]]:
    """One run to its end; gives its folder and the machine's load meanwhile. Raises RuntimeError where it did not end well."""
    runs = folder / "runs"
    before = set(runs.glob(f"*-{name}"))
    output = folder / f"{name}.txt"
    with output.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "aiperf", f"runs={runs}", f"name={name}", *words],
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            with watched(process.pid) as watch:
                status = process.wait(timeout=seconds + START_SECONDS)
            load = watch.load()
        finally:
            if process.poll() is None:
                process.terminate()  # it ends its run in order
                process.wait(timeout=START_SECONDS)
    made = sorted(set(runs.glob(f"*-{name}")) - before)
    if status not in (0, 1) or not made:
        raise RuntimeError(f"a run ends with a score; '{name}' ended with status {status}: see '{output}'")
    return made[-1], asdict(load) | {"words": str(load)}


def cv(values: Sequence[float | None]) -> float | None:
    """Standard deviation ÷ mean; None of fewer than two, around zero, or where a run has no such figure."""
    told = [value for value in values if value is not None]
    if len(told) < len(values):
        return None
    mean = statistics.fmean(told) if told else 0.0
    return statistics.stdev(told) / mean if len(told) > 1 and mean else None


def spreads(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """CVs of each kind, and those of the trials that all following runs finished."""
    of_kind = {kind: [one for one in outcomes if one.kind == kind] for kind in KINDS}
    found: dict[str, Any] = {
        kind: {name: cv([getattr(one, name) for one in those]) for name in FIGURES} | {"runs": len(those)}
        for kind, those in of_kind.items()
    }
    followers = of_kind["follow"]
    if len(followers) > 1:
        common = set.intersection(*(set(one.trial_flops) for one in followers))
        same = sum(len({one.trial_flops[each] for one in followers}) == 1 for each in common)
        times = [cv([one.trial_seconds[each] for one in followers]) for each in common]
        known = [one for one in times if one is not None]
        found["pairs"] = {
            "trials finished in all following runs": len(common),
            "of these with equal operations": same,
            "median CV of a trial's time": statistics.median(known) if known else None,
            "CV of the time of all of them": cv(
                [sum(one.trial_seconds[each] for each in common) for one in followers] if common else []
            ),
        }
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Runs what is missing, prints each run as it ends, then the spreads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the runs and of spread.json")
    parser.add_argument("--runs", type=int, default=5, help="of each kind")
    parser.add_argument("--seconds", type=float, default=70.0, help="length of each run")
    parser.add_argument("--warmup", type=float, default=15.0, help="of each run")
    parser.add_argument("--seed", type=int, default=0)
    chosen, options = parser.parse_known_args(words)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    common = [
        f"schedule.duration_seconds={chosen.seconds:g}",
        f"schedule.warmup_seconds={chosen.warmup:g}",
        f"seed={chosen.seed}",
        *options,
    ]
    record = chosen.folder / "spread.json"
    outcomes = _done(record, common)
    print(f"{describe_machine()}; {' '.join(common)}", flush=True)
    for kind, number in in_turn(chosen.runs):
        if any((one.kind, one.number) == (kind, number) for one in outcomes):
            continue
        words_of_it = [*common]
        if kind == "follow":
            words_of_it.append(f"follow={next(one.folder for one in outcomes if one.kind == 'equal')}")
        began = time.monotonic()
        folder, load = begin(chosen.folder, f"{kind}-{number}", words_of_it, chosen.seconds)
        outcomes.append(outcome(folder.absolute(), kind, number, load))
        _write(record, common, outcomes)
        print(f"{_in_words(outcomes[-1])} · took {time.monotonic() - began:.0f} s", flush=True)
    _print_spreads(outcomes)
    return 0


def in_turn(runs: int) -> list[tuple[str, int]]:
    """Both kinds in turn, so that a machine that drifts drifts for both: e f, f e, e f, … The first is the one that all
    others of the second kind follow."""
    return [
        (kind, number) for number in range(1, runs + 1) for kind in (KINDS if number % 2 else tuple(reversed(KINDS)))
    ]


def _done(record: Path, common: Sequence[str]) -> list[Outcome]:
    """Runs that were made before. Raises SystemExit where they had other options."""
    if not record.is_file():
        return []
    held = json.loads(record.read_text())
    if held["options"] != list(common):
        raise SystemExit(f"runs of a folder have equal options; '{record}' has {held['options']}, found {list(common)}")
    return [Outcome(**one) for one in held["runs"] if (Path(one["folder"]) / NAME).is_file()]


def _write(record: Path, common: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    told = {
        "machine": describe_machine(),
        "options": list(common),
        "runs": [asdict(one) for one in outcomes],
        "spreads": spreads(outcomes),
    }
    record.write_text(json.dumps(told, indent=2) + "\n")


def _in_words(one: Outcome) -> str:
    score = "no score" if one.score is None else f"score {one.score / 1e9:.2f} GFLOPS"
    return (
        f"{one.kind:<6} {one.number}: {score} · error {_share(one.error)} · {one.trials} trials of "
        f"{one.operations_per_trial / 1e9:.1f} GFLOP · busy {_share(one.busy_share)} · ended {one.end_reason} at "
        f"{one.seconds:.1f} s · {one.load['words']}"
    )


def _print_spreads(outcomes: Sequence[Outcome]) -> None:
    found = spreads(outcomes)
    for kind in KINDS:
        told = ", ".join(f"{name.replace('_', ' ')} {_share(found[kind][name])}" for name in FIGURES)
        print(f"CV of {found[kind]['runs']} {'equal' if kind == 'equal' else 'following'} runs: {told}")
    for name, value in found.get("pairs", {}).items():
        print(f"{name}: {value if isinstance(value, int) else _share(value)}")
    for kind in KINDS:
        _print_shares(kind, [one.folder for one in outcomes if one.kind == kind])


def _print_shares(kind: str, folders: Sequence[str]) -> None:
    """What the spread of a kind's runs is made of, as `python -m aiperf compare --repeats` tells it."""
    if len(folders) < 2:
        return
    print(f"\n{kind}:")
    try:
        print("\n".join(repeats_lines(repeats(side(folders)))))
    except AiperfError as refused:
        print(f"not reported: {refused}")


def _share(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2%}"


if __name__ == "__main__":
    sys.exit(main())
