"""Forgeries of a real run's journal by an insider: who knows the format, edits what goes with it and chains the lines anew.

Each kind is a function of the lines (as JSON values, without chains) that changes them in place at a place drawn at random. It
sees to what a reader looks at first (order of time, numbers, positions, sums within the data set), so that what finds it is the
law that it breaks and no carelessness of the forger.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from aiperf.journal.first_line import config_hash
from tests.journal.forged import Line

Edit = Callable[[list[Line], Random], None]


@dataclass(frozen=True, slots=True)
class Forgery:
    """One kind."""

    edit: Edit
    found_by: frozenset[str]
    """Checks of which at least one finds it, wherever it was done."""


KINDS: dict[str, Forgery] = {}


def kind(name: str, *found_by: str) -> Callable[[Edit], Edit]:
    """Names a kind of forgery, and what finds it."""

    def named(edit: Edit) -> Edit:
        KINDS[name] = Forgery(edit, frozenset(found_by))
        return edit

    return named


# ---- finding one's way


def places(lines: list[Line], event: str, **fields: Any) -> list[int]:
    """Indexes of the lines of this event with these fields."""
    return [
        place
        for place, line in enumerate(lines)
        if line["event"] == event and all(line.get(name) == value for name, value in fields.items())
    ]


def drawn(lines: list[Line], rng: Random, event: str, **fields: Any) -> int:
    """One of them."""
    return rng.choice(places(lines, event, **fields))


def works(lines: list[Line]) -> list[int]:
    """Indexes of the lines that end an interval of some images."""
    return [place for place, line in enumerate(lines) if (work := work_of(line)) and work["training_images"]]


def work_of(line: Line) -> dict[str, Any] | None:
    """The interval of a line."""
    if line["event"] == "Progress":
        return line
    return line.get("interval") if line["event"] == "EpochFinished" else None


def of_trial(lines: list[Line], number: int) -> Iterator[Line]:
    """All lines that name a trial, its request and proposal among them."""
    for line in lines:
        if line.get("trial") == number or (line["event"] in PROPOSING and line["number"] == number):
            yield line


PROPOSING = ("ProposalRequested", "TrialProposed", "TrialRejected")


def reposition(lines: list[Line]) -> None:
    """Positions of proposals are the lines before their request: whoever adds or takes lines sets them right."""
    positions: dict[int, int] = {}
    for place, line in enumerate(lines):
        if line["event"] == "ProposalRequested":
            positions[line["number"]] = line["position"] = place
        elif line["event"] == "TrialProposed":
            line["position"] = positions.get(line["number"], line["position"])


def configure(lines: list[Line], change: Callable[[dict[str, Any]], object]) -> None:
    """Another configuration, with its hash."""
    change(lines[0]["config"])
    lines[0]["config_hash"] = config_hash(lines[0]["config"])


def shift(line: Line, seconds: float) -> None:
    """A line and its interval, at another time."""
    line["at"] += seconds
    work = work_of(line)
    if work is not None:
        work["start"] += seconds
        work["end"] = work["end"] + seconds if work["end"] != line["at"] - seconds else line["at"]


def result_of(lines: list[Line], trial: int) -> Line:
    """The end of a trial."""
    return lines[places(lines, "TrialFinished", trial=trial)[0]]


# ---- work


@kind("images added to an interval", "images")
def images_added(lines: list[Line], rng: Random) -> None:
    work = work_of(lines[rng.choice(works(lines))])
    assert work is not None
    work["training_images"] += rng.randint(1, 29)


@kind("images taken from an interval", "images")
def images_taken(lines: list[Line], rng: Random) -> None:
    line = lines[rng.choice([place for place in works(lines) if lines[place]["event"] == "EpochFinished"])]
    line["interval"]["training_images"] -= rng.randint(1, line["interval"]["training_images"])


@kind("images moved from one epoch to another", "images")
def images_moved(lines: list[Line], rng: Random) -> None:
    one, other = rng.sample([place for place in works(lines) if lines[place]["event"] == "EpochFinished"], 2)
    images = rng.randint(1, 29)
    lines[one]["interval"]["training_images"] -= images
    lines[other]["interval"]["training_images"] += images


@kind("validation images taken", "images")
def validation_taken(lines: list[Line], rng: Random) -> None:
    line = lines[rng.choice([place for place in works(lines) if lines[place]["event"] == "EpochFinished"])]
    line["interval"]["validation_images"] -= rng.randint(1, 300)


@kind("an interval inserted into an epoch", "images", "intervals")
def interval_inserted(lines: list[Line], rng: Random) -> None:
    """Its time is taken from the epoch's end, so that all intervals meet."""
    place = rng.choice([one for one in works(lines) if lines[one]["event"] == "EpochFinished"])
    end = lines[place]
    work, middle = end["interval"], (end["interval"]["start"] + end["interval"]["end"]) / 2
    clocks = {name: value / 2 for name, value in work.items() if name.endswith("_seconds")}
    added = {name: end[name] for name in ("trial", "attempt", "epoch")} | work | clocks
    lines.insert(
        place,
        {"event": "Progress", "at": middle, **added, "end": middle, "training_images": 16, "validation_images": 0},
    )
    work.update(clocks, start=middle)
    last = max((one for one in range(place) if lines[one]["at"] > middle), default=None)
    if last is not None:  # lines of the same moment that the new one came after
        lines.insert(min(one for one in range(place) if lines[one]["at"] > middle), lines.pop(place))
    reposition(lines)


@kind("the operations of a trial scaled", "graphs")
def operations_scaled(lines: list[Line], rng: Random) -> None:
    line, factor = lines[drawn(lines, rng, "TrialProposed")], rng.choice([0.5, 0.99, 1.01, 2.0, 10.0])
    for name in (
        "forward_flops",
        "backward_flops",
        "validation_flops",
        "tensor_forward_flops",
        "tensor_backward_flops",
    ):
        line[name] = int(line[name] * factor)


@kind("one operation added to an image", "graphs")
def one_operation_added(lines: list[Line], rng: Random) -> None:
    counts = ["forward_flops", "backward_flops", "validation_flops", "tensor_forward_flops", "tensor_backward_flops"]
    lines[drawn(lines, rng, "TrialProposed")][rng.choice(counts)] += 1


@kind("an interval's time stretched to its line's beginning", "intervals")
def time_stretched(lines: list[Line], rng: Random) -> None:
    """Later beginning: the same work in less time."""
    work = work_of(lines[rng.choice(works(lines))])
    assert work is not None
    part = rng.uniform(0.01, 0.5)
    work["start"] += (work["end"] - work["start"]) * part
    for name in work:
        if name.endswith("_seconds"):
            work[name] *= 1 - part


# ---- epochs and results


@kind("an epoch repeated", "results", "intervals", "decisions", "reading")
def epoch_repeated(lines: list[Line], rng: Random) -> None:
    """The last epoch of a trial once more, in the time between it and the trial's end; the end keeps its words."""
    trial = rng.choice([line["trial"] for line in lines if line["event"] == "TrialFinished"])
    place = max(places(lines, "EpochFinished", trial=trial))
    again = copy.deepcopy(lines[place])
    end, until = lines[place]["at"], lines[places(lines, "TrialFinished", trial=trial)[0]]["at"]
    again.update(at=until, epoch=again["epoch"] + 1)
    length = until - end
    again["interval"].update({name: 0.0 for name in again["interval"] if name.endswith("_seconds")})
    again["interval"].update(start=end, end=until, busy_seconds=length)
    whole = sum(w["training_images"] for w in map(work_of, lines) if w and w["training_images"]) and 1280
    again["interval"].update(training_images=whole, validation_images=lines[0]["dataset"]["validation_images"])
    lines.insert(place + 1, again)
    reposition(lines)


@kind("an epoch left out", "reading", "results", "images")
def epoch_left_out(lines: list[Line], rng: Random) -> None:
    place = drawn(lines, rng, "EpochFinished")
    trial, epoch = lines[place]["trial"], lines[place]["epoch"]
    del lines[place]
    for line in of_trial(lines[place:], trial):
        if line.get("epoch", 0) > epoch:
            line["epoch"] -= 1
    reposition(lines)


def best_again(lines: list[Line], trial: int) -> None:
    """The end of a trial says the best of its epochs, and tells the search what its curve gives, as the rules have it."""
    for place in places(lines, "TrialFinished", trial=trial):
        curve = [
            line["accuracy"] for line in lines[:place] if line["event"] == "EpochFinished" and line["trial"] == trial
        ]
        first = lines[0]["config"]["schedule"]["epochs"][0]
        assert first < 5, "with fewer than 5 epochs the best of them is told"
        lines[place].update(accuracy=max(curve), told_accuracy=max(curve[:first]))


def raised(lines: list[Line], place: int, by: float) -> None:
    lines[place]["accuracy"] = min(1.0, lines[place]["accuracy"] + by)
    lines[place]["validation_loss"] *= 0.5
    lines[place]["validation_loss"] = max(
        lines[place]["validation_loss"], (1 - lines[place]["accuracy"]) * math.log(2) * 1.01
    )
    best_again(lines, lines[place]["trial"])


@kind("an accuracy raised, off the grid of 1/n", "images")
def accuracy_raised_off_the_grid(lines: list[Line], rng: Random) -> None:
    raised(lines, drawn(lines, rng, "EpochFinished"), rng.choice([0.001, 0.0301, 0.1003]))


@kind("an accuracy raised to 1 with its loss as it was", "images")
def accuracy_raised_to_one(lines: list[Line], rng: Random) -> None:
    """Of an epoch whose loss no network has that is never wrong."""
    high = [p for p in places(lines, "EpochFinished") if lines[p]["validation_loss"] > math.log(10) * 1.01]
    place = rng.choice(high or places(lines, "EpochFinished", accuracy=min(
        line["accuracy"] for line in lines if line["event"] == "EpochFinished")))  # fmt: skip
    lines[place]["validation_loss"] = max(lines[place]["validation_loss"], 2.5)
    lines[place]["accuracy"] = 1.0
    best_again(lines, lines[place]["trial"])


@kind("an early result raised along the grid", "proposals")
def early_result_raised(lines: list[Line], rng: Random) -> None:
    """What the search is told of one of the first trials, consistently: it would have proposed otherwise."""
    finished = [line["trial"] for line in lines if line["event"] == "TrialFinished"][:2]
    trial = rng.choice(finished)
    images = lines[0]["dataset"]["validation_images"]
    for place in places(lines, "EpochFinished", trial=trial):
        raised(lines, place, rng.randint(images // 5, images // 4) / images)


@kind("what the search is told raised alone", "results")
def told_raised(lines: list[Line], rng: Random) -> None:
    line = lines[drawn(lines, rng, "TrialFinished")]
    line["told_accuracy"] = min(1.0, line["told_accuracy"] + rng.choice([1e-6, 0.01, 0.1]))


@kind("a trial's end says another accuracy", "results")
def other_best(lines: list[Line], rng: Random) -> None:
    lines[drawn(lines, rng, "TrialFinished")]["accuracy"] *= rng.uniform(0.5, 0.99)


@kind("a trial ended early", "results", "reading")
def ended_early(lines: list[Line], rng: Random) -> None:
    """Its last epoch is taken out, so that more trials fit."""
    trial = rng.choice([line["trial"] for line in lines if line["event"] == "TrialFinished"])
    last = lines[places(lines, "EpochFinished", trial=trial)[-1]]["epoch"]
    of_it = [
        *places(lines, "EpochFinished", trial=trial, epoch=last),
        *places(lines, "Progress", trial=trial, epoch=last),
    ]
    for place in sorted(of_it, reverse=True):
        del lines[place]
    best_again(lines, trial)
    reposition(lines)


@kind("a learning rate changed", "learning rates")
def learning_rate_changed(lines: list[Line], rng: Random) -> None:
    lines[drawn(lines, rng, "EpochFinished")]["learning_rate"] *= rng.choice([0.5, 0.999, 1.001, 2.0])


# ---- the first line


@kind("the seed changed", "decisions")
def seed_changed(lines: list[Line], rng: Random) -> None:
    seed = rng.randint(1, 2**31)
    lines[0]["seed"] = seed
    configure(lines, lambda config: config.update(seed=seed))


@kind("the learning rate of the configuration changed", "learning rates")
def configured_rate_changed(lines: list[Line], rng: Random) -> None:
    configure(lines, lambda config: config["trainer"].update(learning_rate=rng.choice([0.05, 0.11, 1.0])))


@kind("an option of the search changed", "proposals")
def search_changed(lines: list[Line], rng: Random) -> None:
    name, value = rng.choice([("candidates", 32), ("morphs", 1), ("parents", 2)])
    configure(lines, lambda config: config["searcher"].update({name: value}))


@kind("an option of tuning changed", "proposals")
def tuning_changed(lines: list[Line], rng: Random) -> None:
    configure(lines, lambda config: config["hpo"].update(startup_trials=rng.choice([0, 1, 8])))


@kind("the rounds' epochs changed", "results", "decisions")
def rounds_changed(lines: list[Line], rng: Random) -> None:
    configure(lines, lambda config: config["schedule"].update(epochs=rng.choice([[2, 3, 5], [1, 3, 4], [2, 2, 4]])))


@kind("the starting graph exchanged", "states", "graphs")
def graph_exchanged(lines: list[Line], rng: Random) -> None:
    nodes = [node for node in lines[0]["start_graph"]["nodes"] if node["op"] == "convolution" and node["kernel"] == 3]
    node = rng.choice(nodes[:1])
    node["out_channels"] *= 2


@kind("more validation images than there were", "images")
def validation_images_changed(lines: list[Line], rng: Random) -> None:
    lines[0]["dataset"]["validation_images"] += rng.choice([1, 10, 360])


@kind("more training images than there were", "images", "data")
def training_images_changed(lines: list[Line], rng: Random) -> None:
    lines[0]["dataset"]["training_images"] += rng.choice([512, 1437])


# ---- proposals


@kind("another parent", "graphs", "proposals", "reading", "states")
def other_parent(lines: list[Line], rng: Random) -> None:
    line = lines[rng.choice([p for p in places(lines, "TrialProposed") if (lines[p]["parent"] or 0) > 0])]
    line["parent"] = rng.choice([number for number in range(line["number"]) if number != line["parent"]])


@kind("a morph changed", "graphs", "proposals")
def morph_changed(lines: list[Line], rng: Random) -> None:
    line = lines[rng.choice([p for p in places(lines, "TrialProposed") if lines[p]["morphs"]])]
    line["morphs"].pop(rng.randrange(len(line["morphs"])))


@kind("a fingerprint changed", "graphs")
def fingerprint_changed(lines: list[Line], rng: Random) -> None:
    line = lines[drawn(lines, rng, "TrialProposed")]
    line["fingerprint"] = line["fingerprint"][::-1]


@kind("a batch size changed with the images that go with it", "proposals")
def batch_changed(lines: list[Line], rng: Random) -> None:
    """Of a tuned trial, with the order and every epoch's whole steps."""
    images = lines[0]["dataset"]["training_images"]
    began = [line["trial"] for line in lines if line["event"] == "TrialStarted"]
    several = [
        w["trial"] for w in lines if w["event"] == "Progress" and w["training_images"] and not w["validation_images"]
    ]
    tuned = [p for p in places(lines, "TrialProposed") if lines[p]["tuned_by"] == "tpe" and lines[p]["number"] in began]
    proposal = lines[rng.choice([p for p in tuned if lines[p]["number"] not in several])]
    batch = rng.choice([size for size in range(64, 129, 8) if size != proposal["batch_size"]])
    proposal["batch_size"] = batch
    for line in of_trial(lines, proposal["number"]):
        if line["event"] == "TrialStarted":
            line["batch_size"] = batch
        work = work_of(line)
        if work is not None and work["training_images"]:
            work["training_images"] = images // (2 * batch) * 2 * batch


@kind("a kernel size changed", "proposals", "graphs")
def kernel_changed(lines: list[Line], rng: Random) -> None:
    line = lines[rng.choice([p for p in places(lines, "TrialProposed") if lines[p]["kernel_size"]])]
    line["kernel_size"] = rng.choice([size for size in (3, 5, 7) if size != line["kernel_size"]])


@kind("who tuned a proposal changed", "proposals")
def tuner_changed(lines: list[Line], rng: Random) -> None:
    line = lines[drawn(lines, rng, "TrialProposed", tuned_by="tpe")]
    line["tuned_by"] = "startup"


@kind("a proposal's seed changed with its request's", "decisions")
def request_seed_changed(lines: list[Line], rng: Random) -> None:
    number, seed = lines[drawn(lines, rng, "TrialProposed")]["number"], rng.getrandbits(62)
    for line in lines:
        if line["event"] in PROPOSING and line["number"] == number:
            line["seed"] = seed


@kind("a spare called no spare", "decisions")
def spare_changed(lines: list[Line], rng: Random) -> None:
    line = lines[drawn(lines, rng, "ProposalRequested")]
    line["spare"] = not line["spare"]


@kind("the measured ceiling of the batch lowered", "proposals", "decisions", "states")
def ceiling_lowered(lines: list[Line], rng: Random) -> None:
    for place in places(lines, "CeilingMeasured"):
        lines[place]["batch_size"] = 72


# ---- time


@kind("one line at another time", "intervals", "reading")
def one_line_moved(lines: list[Line], rng: Random) -> None:
    """An end of an epoch is heard of earlier; its interval is shorter by as much."""
    place = drawn(lines, rng, "EpochFinished")
    before, line = lines[place - 1]["at"], lines[place]
    line["at"] = (max(before, line["interval"]["start"]) + line["at"]) / 2


@kind("all of the time after a point earlier", "clocks")
def time_cut_out(lines: list[Line], rng: Random) -> None:
    """The time that the driver was down is shortened, by the journal's clock alone, and so is the run."""
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
    """A run twice as fast: every time and length of the journal, the declared ones too."""
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


# ---- workers and attempts


@kind("a worker invented", "decisions")
def worker_invented(lines: list[Line], rng: Random) -> None:
    """It joins a moment after another, on a host of its own, and does nothing: more accelerators, as many as one likes."""
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
    """Its loss and what began again are taken out; the attempts after it are the one before."""
    lost = places(lines, "TrialLost")[0]
    trial = lines[lost]["trial"]
    again = places(lines, "TrialStarted", trial=trial, attempt=lines[lost]["attempt"] + 1)[0]
    for line in of_trial(lines[again + 1 :], trial):
        if "attempt" in line:
            line["attempt"] -= 1
    del lines[again], lines[lost]
    prepared = places(lines, "TrialPrepared", trial=trial)
    del lines[prepared[-1]]
    reposition(lines)


@kind("a trial taken out", "decisions", "reading")
def trial_taken_out(lines: list[Line], rng: Random) -> None:
    """One that nobody descends from, from its request to its end; those after it are numbered on."""
    parents = {line["parent"] for line in lines if line["event"] == "TrialProposed"}
    finished = {line["trial"] for line in lines if line["event"] == "TrialFinished"}
    gone = rng.choice(sorted(finished - parents))
    taken = [id(line) for line in of_trial(lines, gone)]
    lines[:] = [line for line in lines if id(line) not in taken]
    for line in lines:
        for name in ("number", "trial", "parent"):
            if name in line and line[name] is not None and line[name] > gone:
                line[name] -= 1
    reposition(lines)


@kind("a checkpoint's line taken out", "weights")
def checkpoint_taken_out(lines: list[Line], rng: Random) -> None:
    """Of the epoch that another attempt goes on after, or whose weights a child inherits."""
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


# ---- machines


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
