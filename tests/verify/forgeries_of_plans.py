"""Forgeries of plans: the first line, and proposals."""

from __future__ import annotations

import json
from random import Random

from morphism import Budget, Deepen, cost, decode, decode_morph, encode_morph, grow, legal
from searchers.growth import own_size
from tests.builders.forged_journal import Line
from tests.verify.forging import PROPOSING, Kinds, configure, drawn, naming, of_trial, places, work_of

KINDS: Kinds = {}
kind = naming(KINDS)


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


@kind("a group of options removed, by another release", "plan")
def options_removed(lines: list[Line], rng: Random) -> None:
    lines[0]["versions"]["aiperf-cluster"] = "0.0.9"
    configure(lines, lambda config: config.pop(rng.choice(["searcher", "hpo", "trainer", "dataset"])))


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
    """The batch of a tuned trial changes, with its order and the whole steps of its epochs."""
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


@kind("the tuner of a proposal changed", "proposals")
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


@kind("a proposal exchanged for another that is as good", "proposals")
def proposal_exchanged(lines: list[Line], rng: Random) -> None:
    """A proposal without children gets another legal morph, with all values that follow from it."""
    proposals = {line["number"]: line for line in lines if line["event"] == "TrialProposed"}
    parents = {line["parent"] for line in proposals.values()}
    line = proposals[
        rng.choice([n for n, one in proposals.items() if n not in parents and one["tuned_by"] == "default"])
    ]
    graph = decode(json.dumps(lines[0]["start_graph"]))
    for ancestor in lineage(proposals, line["parent"]):
        for one in ancestor["morphs"]:
            graph = grow(graph, decode_morph(one))
    budget = Budget(**lines[0]["config"]["space"]["budget"])
    others = [
        one for one in legal(graph, budget) if isinstance(one, Deepen) and encode_morph(one) not in line["morphs"]
    ]
    morph = rng.choice(others)
    grown = grow(graph, morph)
    counted = cost(grown)
    line.update(
        morphs=[encode_morph(morph)],
        fingerprint=grown.fingerprint,
        own_kernel=own_size(grown),
        forward_flops=counted.forward_flops,
        backward_flops=counted.backward_flops,
        validation_flops=counted.forward_validation_flops,
        tensor_forward_flops=counted.tensor_forward_flops,
        tensor_backward_flops=counted.tensor_backward_flops,
        parameters=counted.parameters,
    )


def lineage(proposals: dict[int, Line], number: int | None) -> list[Line]:
    """Return a trial's ancestors and the trial itself, the oldest first."""
    ancestors: list[Line] = []
    while number is not None:
        ancestors.insert(0, proposals[number])
        number = proposals[number]["parent"]
    return ancestors


@kind("a training image more than the data set has", "data set")
def one_image_more(lines: list[Line], rng: Random) -> None:
    """The added images are too few to change the whole steps of an epoch."""
    lines[0]["dataset"]["training_images"] += rng.randint(1, 20)


@kind("called another data set", "data set")
def other_data_set(lines: list[Line], rng: Random) -> None:
    name, value = rng.choice([("name", "imagenet"), ("is_full_imagenet", True), ("noise", 0.5)])
    lines[0]["dataset"][name] = value
