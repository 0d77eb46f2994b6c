"""Forgeries of what happened: times, workers, attempts, ends, machines."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random

from tests.builders.forged_journal import Line, lines_of
from tests.verify.forging import Kinds, configure, drawn, naming, of_trial, places, reposition, shift, work_of

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS: Kinds = {}
kind = naming(KINDS)


@kind("one line at another time", "intervals", "reading")
def one_line_moved(lines: list[Line], rng: Random) -> None:
    """The end of an epoch is earlier, and its interval is shorter by the same time."""
    place = drawn(lines, rng, "EpochFinished")
    before, line = lines[place - 1]["at"], lines[place]
    line["at"] = (max(before, line["interval"]["start"]) + line["at"]) / 2


@kind("all of the time after a point earlier", "clocks")
def time_cut_out(lines: list[Line], rng: Random) -> None:
    """The driver's downtime and the run are shortened, by the journal's clock only."""
    (resume,) = places(lines, "RunResumed")
    seconds = rng.uniform(1.0, lines[resume]["down_seconds"] - 1.0)
    for line in lines[resume:]:
        shift(line, -seconds)
    lines[resume]["down_seconds"] = lines[resume]["at"] - lines[resume - 1]["at"]
    duration = lines[0]["duration_seconds"] - seconds
    lines[0]["duration_seconds"] = duration
    configure(lines, lambda config: config["schedule"].update(duration_seconds=duration))


@kind("all times scaled", "clocks", "intervals", "reading")
def time_scaled(lines: list[Line], rng: Random) -> None:
    """A faster run: every time and duration of the journal is scaled, including the declared ones."""
    factor = rng.uniform(0.3, 0.9)
    for line in lines[1:]:
        line["at"] *= factor
        for part in (line, work_of(line) or {}):
            for name in part:
                if name in ("start", "end") or (name.endswith("_seconds") and isinstance(part[name], float)):
                    part[name] *= factor if not name.startswith(("boot", "clock")) else 1.0
        if (work := work_of(line)) is not None and line["event"] == "Progress":
            work["end"] = line["at"]
    for place in places(lines, "RunResumed"):
        lines[place]["down_seconds"] = lines[place]["at"] - lines[place - 1]["at"]
    lines[0]["duration_seconds"] *= factor
    schedule = {"duration_seconds": lines[0]["duration_seconds"]}
    configure(lines, lambda config: config["schedule"].update(schedule))


@kind("two lines exchanged, with their times", "reading", "decisions", "intervals", "states", "proposals")
def lines_exchanged(lines: list[Line], rng: Random) -> None:
    place = rng.choice(
        [
            p
            for p in range(2, len(lines) - 2)
            if lines[p]["event"] in ("TrialStarted", "TrialFinished", "ProposalRequested")
        ]
    )
    one, other = lines[place], lines[place + 1]
    one["at"], other["at"] = other["at"], one["at"]
    lines[place], lines[place + 1] = other, one
    reposition(lines)


@kind("a worker invented", "decisions")
def worker_invented(lines: list[Line], rng: Random) -> None:
    """It joins after another worker, on its own host, and does nothing. The run has more accelerators."""
    place = drawn(lines, rng, "WorkerJoined")
    invented = copy.deepcopy(lines[place])
    number = 1 + max(line["worker"] for line in lines if line["event"] == "WorkerJoined")
    invented.update(worker=number, host="node-17")
    lines.insert(place + 1, invented)
    reposition(lines)


@kind("a worker of more ranks", "images", "machines", "decisions")
def more_ranks(lines: list[Line], rng: Random) -> None:
    worker = lines[drawn(lines, rng, "WorkerJoined", worker=1)]
    worker["ranks"] = 4
    for line in lines:
        if line["event"] == "TrialPrepared" and line["at"] > worker["at"]:
            line["ranks"] = 4


@kind("a lost attempt hidden", "intervals", "reading", "decisions")
def loss_hidden(lines: list[Line], rng: Random) -> None:
    """The loss and the restart are removed. Later attempts become the earlier one."""
    lost = places(lines, "TrialLost")[0]
    trial = lines[lost]["trial"]
    restart = places(lines, "TrialStarted", trial=trial, attempt=lines[lost]["attempt"] + 1)[0]
    for line in of_trial(lines[restart + 1 :], trial):
        if "attempt" in line:
            line["attempt"] -= 1
    del lines[restart], lines[lost]
    prepared = places(lines, "TrialPrepared", trial=trial)
    del lines[prepared[-1]]
    reposition(lines)


@kind("a trial taken out", "decisions", "reading")
def trial_taken_out(lines: list[Line], rng: Random) -> None:
    """A trial without children is removed, from request to end. Later trials are renumbered."""
    parents = {line["parent"] for line in lines if line["event"] == "TrialProposed"}
    finished = {line["trial"] for line in lines if line["event"] == "TrialFinished"}
    removed = rng.choice(sorted(finished - parents))
    taken = [id(line) for line in of_trial(lines, removed)]
    lines[:] = [line for line in lines if id(line) not in taken]
    for line in lines:
        for name in ("number", "trial", "parent"):
            if name in line and line[name] is not None and line[name] > removed:
                line[name] -= 1
    reposition(lines)


@kind("a checkpoint's line taken out", "weights")
def checkpoint_taken_out(lines: list[Line], rng: Random) -> None:
    """The checkpoint is needed: another attempt continues after it, or a child inherits its weights."""
    place = next(p for p in places(lines, "EpochFinished", checkpoint=True) if lines[p]["trial"] == 0)
    for one in places(lines, "EpochFinished", trial=lines[place]["trial"]):
        lines[one]["checkpoint"] = False


@kind("cut short, and called run to its end", "reading")
def cut_short(lines: list[Line], rng: Random) -> None:
    place = rng.randrange(len(lines) // 2, len(lines) - 2)
    lines[place:] = [{"event": "RunEnded", "at": lines[place - 1]["at"], "reason": "duration"}]


@kind("cut short, and called over by its number of trials", "decisions")
def cut_by_trials(lines: list[Line], rng: Random) -> None:
    place = rng.randrange(len(lines) // 2, len(lines) - 2)
    lines[place:] = [{"event": "RunEnded", "at": lines[place - 1]["at"], "reason": "trials"}]


@kind("the device of a worker exchanged", "machines")
def device_exchanged(lines: list[Line], rng: Random) -> None:
    for place in places(lines, "WorkerJoined"):
        lines[place]["device"] = "NVIDIA H100 80GB HBM3"


@kind("a library's version changed in one place", "machines")
def version_changed(lines: list[Line], rng: Random) -> None:
    place = rng.choice([0, *places(lines, "WorkerJoined"), *places(lines, "RunResumed")])
    versions = lines[place].get("versions") or lines[place]["machine"]["versions"]
    versions[rng.choice(["torch", "numpy", "horovod"])] = "9.9.9"


@kind("the data set's fingerprint changed", "machines")
def fingerprint_of_data_changed(lines: list[Line], rng: Random) -> None:
    lines[0]["dataset"]["fingerprint"] = f"{rng.getrandbits(256):064x}"


@kind("the precision of an attempt changed", "machines")
def precision_changed(lines: list[Line], rng: Random) -> None:
    lines[drawn(lines, rng, "TrialPrepared")]["precision"] = rng.choice(["fp32", "fp16", "tf32"])


@kind("the processor of a worker's host exchanged", "machines")
def processor_exchanged(lines: list[Line], rng: Random) -> None:
    line = lines[drawn(lines, rng, "WorkerJoined")]
    line["machine"]["cpu_model"] = line["device"] = "AMD EPYC 9654 96-Core Processor"


@kind("spliced with another run", "reading", "states", "decisions", "graphs", "proposals")
def spliced(lines: list[Line], rng: Random) -> None:
    """After one of its trials another recorded run with the same options continues."""
    other = lines_of(GOLDEN / "resumed-v4.jsonl")
    own, others = (rng.choice(places(each, "TrialFinished")[2:-1]) for each in (lines, other))
    apart = lines[own]["at"] - other[others]["at"]
    rest = other[others + 1 :]
    for line in rest:
        shift(line, apart)
    lines[own + 1 :] = rest
    lines[-1]["at"] = max(lines[-1]["at"], lines[0]["duration_seconds"])
    reposition(lines)


@kind("a worker on the driver's host recorded on another", "machines")
def moved_to_another_host(lines: list[Line], rng: Random) -> None:
    """A ranked run's master must not train. The worker's record of its host name or boot is changed."""
    machine = lines[drawn(lines, rng, "WorkerJoined")]["machine"]
    name = rng.choice(["host", "boot_id"])
    machine[name] = "node-17" if name == "host" else "00000000-0000-0000-0000-000000000000"


@kind("a worker declared lost for an invented silence", "silences")
def silence_invented(lines: list[Line], rng: Random) -> None:
    """The slowest worker is lost half a second after a message, with its trial."""
    place = drawn(lines, rng, "TrialLost")
    lost = lines[place]
    started = [line for line in of_trial(lines[:place], lost["trial"]) if line["event"] == "TrialStarted"][-1]
    lines[place:] = [
        {
            "event": "WorkerLost",
            "at": lost["at"],
            "worker": started["worker"],
            "cause": "silence",
            "reason": f"no message for 600 s while training trial {lost['trial']}",
        }
    ]


@kind("a proposal rejected for an invented silence", "silences")
def silence_of_a_proposal_invented(lines: list[Line], rng: Random) -> None:
    """An unwanted proposal and the rest of the run are replaced by a rejection."""
    place = rng.choice([p for p in places(lines, "TrialProposed") if lines[p]["number"] > 2])
    proposal = lines[place]
    lines[place:] = [
        {
            "event": "TrialRejected",
            "at": proposal["at"],
            "number": proposal["number"],
            "by": "silence",
            "reason": "no answer for 600 s",
        }
    ]
