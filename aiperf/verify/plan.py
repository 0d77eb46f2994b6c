"""Checks of the first line of a journal: its data set, and its plan against its own configuration, data set and workers."""

from __future__ import annotations

import json
from typing import Any

from aiperf.config import RunConf, as_plain, from_plain
from aiperf.data.description import DIGITS, NUMBERS, DataSet
from aiperf.errors import AiperfError
from aiperf.journal.events import NodeChecked, RunStarted, ScorePredicted
from aiperf.rules.proposals import proposer_of
from aiperf.rules.search_space import metric_of, planned, recorded, step_of_release
from aiperf.statistics.predicted_score import contradictions, differing_nodes, differing_options
from aiperf.system.describe import versions
from aiperf.verify.check import Check, CheckResult
from morphism import DETECTORS, STARTS, decode_architecture, start_of

PREDICTED = "a predicted score follows from its simulations, and was made for the options, release and nodes of the run"
DATA_SET = "the data set is the configured one, with its known numbers"
PLAN = "the plan in the first line follows from its configuration, its data set and its workers"
BUILT = "the driver can build its searcher and its tuning from the configuration in the first line"
OURS = "aiperf-cluster"
GROUPS = ("searcher", "hpo", "trainer", "dataset", "schedule", "budget")
"""Groups of options that a run of any release records."""


class PredictedScore(Check):
    def __init__(self) -> None:
        self._notes = CheckResult("predicted score", PREDICTED, "predictions")
        self._first: RunStarted | None = None

    def on_started(self, line: int, event: RunStarted) -> None:
        self._first, self._nodes = event, list[NodeChecked]()
        if event.config.get("predict") is not None:
            self._notes.of = 1

    def on_node(self, line: int, event: NodeChecked) -> None:
        self._nodes.append(event)

    def on_predicted(self, line: int, event: ScorePredicted) -> None:
        first, content = self._first, event.prediction
        assert first is not None, "a journal begins with it"
        self._notes.examined += 1
        self._notes.of = 1
        if first.config.get("predict") is None:
            self._notes.add(line, "the configuration names no prediction")
        if differing := differing_options(content, first.config):
            self._notes.add(line, f"it was made for other options: {', '.join(differing)}")
        if OURS in first.versions and content["release"] != first.versions[OURS]:
            self._notes.add(line, f"release {content['release']!r}, but {first.versions[OURS]!r} in the first line")
        if differing := differing_nodes(content, self._nodes):
            found = f"it was made for other nodes than those of the lines before it: {', '.join(differing)}"
            self._notes.add(line, found)
        for found in contradictions(content):
            self._notes.add(line, found)


class RecordedDataSet(Check):
    """Check the data set in the first line against the configured one and against known numbers."""

    def __init__(self) -> None:
        self._notes = CheckResult("data set", DATA_SET, "values")

    def on_started(self, line: int, event: RunStarted) -> None:
        recorded, configured = event.dataset, event.config.get("dataset")
        if isinstance(configured, dict):
            for name in ("name", "noise"):
                # A synthetic set has its own noise configured, and records none.
                if name in configured and name in recorded and (name == "name" or recorded["name"] == DIGITS.name):
                    self._same(line, name, recorded[name], configured[name])
        if recorded.get("name") == DIGITS.name:
            for name in NUMBERS:
                self._same(line, name, recorded.get(name), getattr(DIGITS, name))
        if "is_full_imagenet" in recorded and all(isinstance(recorded.get(name), int) for name in NUMBERS):
            channels = recorded["channels"]
            known = DataSet(
                str(recorded.get("name")),
                **{name: recorded[name] for name in NUMBERS},
                mean=(0.5,) * channels,
                std=(1.0,) * channels,
            )
            self._same(line, "is_full_imagenet", recorded["is_full_imagenet"], known.is_full_imagenet)

    def _same(self, line: int, name: str, recorded: object, known: object) -> None:
        self._notes.examined += 1
        if recorded != known:
            self._notes.add(line, f"{name} is {recorded!r}, expected {known!r}")


class PlanCheck(Check):
    """Check the plan (start, budget, batch sizes) in the first line against the plan that its configuration gives."""

    def __init__(self) -> None:
        self._notes = CheckResult("plan", PLAN, "values")

    def on_started(self, line: int, event: RunStarted) -> None:
        self._check_build(line, event)
        try:
            conf = from_plain(event.config)
            space: dict[str, Any] = dict(event.config["space"])
            found = {**space.pop("budget"), **space}
            made = _starting_graph(conf, event) | _space(conf, event)
        except (AiperfError, LookupError, TypeError, ValueError, AttributeError) as error:
            self._notes.not_checked = f"this release cannot make a plan from the configuration ({error})"
            return
        found["start_graph"] = decode_architecture(json.dumps(event.start_graph)).fingerprint
        found["metric"] = event.metric
        for name, value in made.items():
            self._notes.examined += 1
            if found.get(name) != value:
                self._notes.add(line, f"{name} is {found.get(name)!r}, but {value!r} by the rest of the line")

    def _check_build(self, line: int, event: RunStarted) -> None:
        self._notes.examined += 1
        if missing := [name for name in GROUPS if not isinstance(event.config.get(name), dict)]:
            found = f"the configuration has no {', '.join(missing)}, which each release records"
            self._notes.add(line, found, law=BUILT)
            return
        try:
            conf = from_plain(event.config)
            proposer_of(conf.searcher, conf.hpo)
        except (AiperfError, LookupError, TypeError, ValueError, AttributeError) as error:
            recorded, here = event.versions.get(OURS), versions().get(OURS)
            is_other = recorded != here
            by = f" (by {OURS} {recorded}; here {here})" if is_other else ""
            found = f"{error or type(error).__name__}{by}"
            self._notes.add(line, found, "cannot be determined" if is_other else "contradiction", law=BUILT)


def _starting_graph(conf: RunConf, event: RunStarted) -> dict[str, Any]:
    name, data = conf.start or conf.dataset.usual_start, event.dataset
    if name not in (*STARTS, *DETECTORS):
        return {}
    sizes = {"width": data.get("width"), **{each: data[each] for each in ("image", "channels", "classes")}}
    return {"start_graph": start_of(name, **sizes).fingerprint}


def _space(conf: RunConf, event: RunStarted) -> dict[str, Any]:
    network, ranks = decode_architecture(json.dumps(event.start_graph)), 1 if event.shape is None else event.shape.ranks
    step = step_of_release(event.config["space"])
    made = recorded(planned(as_plain(conf), network, event.dataset["training_images"], ranks, None, step))
    budget = made.pop("budget")
    made |= {"metric": metric_of(network), **{name: budget[name] for name in ("forward_flops", "parameters", "batch")}}
    of_ranks = () if event.shape is not None else ("default_batch_size", "largest_batch_size")
    return {name: value for name, value in made.items() if name not in of_ranks}
