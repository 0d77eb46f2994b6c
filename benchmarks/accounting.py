"""Breakdown of a finished run's accelerator time, and its score relative to the rate of its busy accelerators.

    python -m benchmarks.accounting runs/20261121-120000-digits

Reads the journal only. Prints for the valid window:

- score ÷ (operations per busy accelerator-second × accelerators), with each trial's operations per busy second weighted by
  these seconds
- time breakdown by line. Its last line, unaccounted time, should stay below 1 %
- pause between two trials of a worker, and time of proposals
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.score import capacity, score
from aiperf.accounting.valid_window import share_inside, window
from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import AnyEvent, EpochFinished, Progress, TrialFinished, TrialPrepared, TrialProposed
from aiperf.journal.journal import read
from aiperf.journal.run_folder import run_folder
from aiperf.units import duration, flops_per_second, share
from benchmarks.pairs import describe_machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run's folder, or its name under runs/")
    arguments = parser.parse_args()
    events = list(read(run_folder(arguments.run)))
    log = WorkLog()
    for event in events:
        log.take(event)
    inside = window(log)
    result = score(log)
    assert result.flops_per_second is not None, "a run that ended within its warm-up has no score to break down"
    columns = log.intervals
    part = share_inside(np.array(columns.start), np.array(columns.end), inside)
    busy = float((np.array(columns.busy) * np.array(columns.ranks) * part).sum())
    done = float((np.array(columns.flops) * part).sum())
    perfect = done / busy * capacity(log)
    entries = time_breakdown(accelerator_time(log, inside))
    pauses = _pauses(events)
    prepared = [event for event in events if isinstance(event, TrialPrepared)]
    build, weights = [event.build_seconds for event in prepared], [event.weights_seconds for event in prepared]
    proposals = [event.seconds for event in events if isinstance(event, TrialProposed)]
    print(f"machine: {describe_machine()}")
    print(
        f"score {flops_per_second(result.flops_per_second)} in a window of {duration(inside.seconds)}, "
        f"{result.trials_finished} trials"
    )
    print(f"operations per busy accelerator-second × accelerators: {flops_per_second(perfect)}")
    print(f"score ÷ that: {result.flops_per_second / perfect:.4f} (goal ≥ 0.98)\n")
    print("| accelerator time | seconds | share |\n| --- | --- | --- |")
    for line in entries.lines:
        print(f"| {line.name} | {line.seconds:.2f} | {share(line.share, 2)} |")
    print(f"| all | {entries.whole_seconds:.2f} | 100 % |\n")
    if pauses:
        print(
            "pause between two trials of a worker, from its last image until the next network is ready: "
            f"median {1000 * statistics.median(pauses):.1f} ms, longest {1000 * max(pauses):.1f} ms, {len(pauses)} pauses; "
            f"of it building {1000 * statistics.median(build):.1f} ms, weights {1000 * statistics.median(weights):.1f} ms"
        )
    if proposals:
        print(f"a proposal: median {duration(statistics.median(proposals))}, longest {duration(max(proposals))}")


def _pauses(events: list[AnyEvent]) -> list[float]:
    """Return the seconds from the last image of a worker's trial until its next trial is prepared with its weights."""
    ended: dict[int, float] = {}
    last: dict[int, tuple[int, float]] = {}
    pauses: list[float] = []
    trial_of: dict[int, int] = {}
    for event in events:
        if isinstance(event, Progress | EpochFinished):
            if (work := event.interval) is None:
                continue
            if trial_of.get(work.worker) != event.trial:
                if work.worker in ended:
                    # An interval begins when the network is ready.
                    pauses.append(work.start - ended.pop(work.worker))
                trial_of[work.worker] = event.trial
            if work.training_images + work.validation_images > 0:  # otherwise it only waited for the last checkpoint
                last[event.trial] = (work.worker, work.end)
        elif isinstance(event, TrialFinished) and event.trial in last:
            worker, end = last[event.trial]
            ended[worker] = end
    return pauses


if __name__ == "__main__":
    main()
