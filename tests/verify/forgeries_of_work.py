"""Forgeries of work and of its results: images, operations, intervals, epochs, accuracies."""

from __future__ import annotations

import copy
import math
from random import Random

from tests.builders.forged_journal import Line
from tests.verify.forging import Kinds, drawn, naming, of_trial, places, reposition, update_result, work_of, works

KINDS: Kinds = {}
kind = naming(KINDS)


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
    """Its time is taken from the epoch's last interval, so that all intervals are contiguous."""
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
    if last is not None:  # the new line comes before lines of a later time
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
    """The interval starts later: the same work in less time."""
    work = work_of(lines[rng.choice(works(lines))])
    assert work is not None
    part = rng.uniform(0.01, 0.5)
    work["start"] += (work["end"] - work["start"]) * part
    for name in work:
        if name.endswith("_seconds"):
            work[name] *= 1 - part


@kind("an epoch repeated", "results", "intervals", "decisions", "reading")
def epoch_repeated(lines: list[Line], rng: Random) -> None:
    """The last epoch of a trial occurs twice, before the unchanged end of the trial."""
    trial = rng.choice([line["trial"] for line in lines if line["event"] == "TrialFinished"])
    place = max(places(lines, "EpochFinished", trial=trial))
    copied = copy.deepcopy(lines[place])
    end, until = lines[place]["at"], lines[places(lines, "TrialFinished", trial=trial)[0]]["at"]
    copied.update(at=until, epoch=copied["epoch"] + 1)
    length = until - end
    copied["interval"].update({name: 0.0 for name in copied["interval"] if name.endswith("_seconds")})
    copied["interval"].update(start=end, end=until, busy_seconds=length)
    images = sum(w["training_images"] for w in map(work_of, lines) if w and w["training_images"]) and 1280
    copied["interval"].update(training_images=images, validation_images=lines[0]["dataset"]["validation_images"])
    lines.insert(place + 1, copied)
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


def raised(lines: list[Line], place: int, by: float) -> None:
    lines[place]["accuracy"] = min(1.0, lines[place]["accuracy"] + by)
    lines[place]["validation_loss"] *= 0.5
    lines[place]["validation_loss"] = max(
        lines[place]["validation_loss"], (1 - lines[place]["accuracy"]) * math.log(2) * 1.01
    )
    update_result(lines, lines[place]["trial"])


@kind("correct samples moved out of the halves", "images")
def halves_changed(lines: list[Line], rng: Random) -> None:
    """The halves have another sum than the whole, more correct samples than a half has, or more samples than their half."""
    line, samples = lines[drawn(lines, rng, "EpochFinished")], lines[0]["dataset"]["validation_images"]
    correct, half = round(line["accuracy"] * samples), samples // 2
    even, odd, sizes = rng.choice([
        (correct // 2, correct - correct // 2 + rng.choice([-1, 1]), (half, half)),
        (half + 1, correct - half - 1, (half, half)) if correct > half else (correct, 0, (max(1, correct - 1), half)),
        (correct // 2, correct - correct // 2, (half + 1, half - 1)),
        (correct // 2, correct - correct // 2, (half, half + 1)),
    ])  # fmt: skip
    line["halves"] = {"even_correct": even, "even_samples": sizes[0], "odd_correct": odd, "odd_samples": sizes[1]}


@kind("an accuracy raised, off the grid of 1/n", "images")
def accuracy_raised_off_the_grid(lines: list[Line], rng: Random) -> None:
    raised(lines, drawn(lines, rng, "EpochFinished"), rng.choice([0.001, 0.0301, 0.1003]))


@kind("an accuracy raised to 1 with its loss as it was", "images")
def accuracy_raised_to_one(lines: list[Line], rng: Random) -> None:
    """The epoch's loss is impossible for a network without errors."""
    high = [p for p in places(lines, "EpochFinished") if lines[p]["validation_loss"] > math.log(10) * 1.01]
    place = rng.choice(high or places(lines, "EpochFinished", accuracy=min(
        line["accuracy"] for line in lines if line["event"] == "EpochFinished")))  # fmt: skip
    lines[place]["validation_loss"] = max(lines[place]["validation_loss"], 2.5)
    lines[place]["accuracy"] = 1.0
    update_result(lines, lines[place]["trial"])


@kind("an early result raised along the grid", "proposals")
def early_result_raised(lines: list[Line], rng: Random) -> None:
    """The reported accuracy of an early trial is consistent, but the search would have made other proposals."""
    finished = [line["trial"] for line in lines if line["event"] == "TrialFinished"][:2]
    trial = rng.choice(finished)
    images = lines[0]["dataset"]["validation_images"]
    for place in places(lines, "EpochFinished", trial=trial):
        raised(lines, place, rng.randint(images // 5, images // 4) / images)


@kind("the reported accuracy alone raised", "results")
def reported_accuracy_raised(lines: list[Line], rng: Random) -> None:
    line = lines[drawn(lines, rng, "TrialFinished")]
    line["reported_accuracy"] = min(1.0, line["reported_accuracy"] + rng.choice([1e-6, 0.01, 0.1]))


@kind("another accuracy at a trial's end", "results")
def other_best(lines: list[Line], rng: Random) -> None:
    lines[drawn(lines, rng, "TrialFinished")]["accuracy"] *= rng.uniform(0.5, 0.99)


@kind("a trial ended early", "results", "reading")
def ended_early(lines: list[Line], rng: Random) -> None:
    """The last epoch is removed, so that more trials fit into the run."""
    trial = rng.choice([line["trial"] for line in lines if line["event"] == "TrialFinished"])
    last = lines[places(lines, "EpochFinished", trial=trial)[-1]]["epoch"]
    of_it = [
        *places(lines, "EpochFinished", trial=trial, epoch=last),
        *places(lines, "Progress", trial=trial, epoch=last),
    ]
    for place in sorted(of_it, reverse=True):
        del lines[place]
    update_result(lines, trial)
    reposition(lines)


@kind("a learning rate changed", "learning rates")
def learning_rate_changed(lines: list[Line], rng: Random) -> None:
    lines[drawn(lines, rng, "EpochFinished")]["learning_rate"] *= rng.choice([0.5, 0.999, 1.001, 2.0])
