"""The first line: the plan that it records is the one that its own configuration, data set and workers make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiperf.config import RunConf, from_plain
from aiperf.errors import AiperfError
from aiperf.journal.events import RunStarted
from aiperf.rules.proposals import proposer_of
from aiperf.rules.search_space import STEPS
from aiperf.system.describe import versions
from aiperf.train.batch_sizes import LEAST
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked
from morphism import STARTS, Budget, decode, start
from searchers.propose import RULES

LAW = "the plan in the first line is made of its configuration, its data set and its workers"

BUILT = "the configuration in the first line is one that a run can be built of"
OURS = "aiperf-cluster"


class Plan:
    """A check."""

    def __init__(self) -> None:
        self._notes = Notes("plan", LAW, "values")

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {RunStarted: self._started}

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        self._look_whether_it_can_be_built(line, event)
        try:
            conf = from_plain(event.config)
            space: dict[str, Any] = dict(event.config["space"])
            recorded = {**space.pop("budget"), **space}
            made = _start(conf, event) | _space(conf, event)
        except (AiperfError, LookupError, TypeError, ValueError, AttributeError) as error:
            self._notes.not_checked = f"the configuration is none that this release can make a plan of ({error})"
            return
        recorded["start_graph"] = decode(json.dumps(event.start_graph)).fingerprint
        for name, value in made.items():
            self._notes.examined += 1
            if recorded.get(name) != value:
                self._notes.add(line, LAW, f"{name} is {recorded.get(name)!r}; by the rest of the line {value!r}")

    def _look_whether_it_can_be_built(self, line: int, event: RunStarted) -> None:
        """Of a run by the present rules: what it searches and tunes with was built before its first line was written."""
        if event.proposal_rules != RULES:
            return
        self._notes.examined += 1
        try:
            conf = from_plain(event.config)
            proposer_of(conf.searcher, conf.hpo)
        except (AiperfError, LookupError, TypeError, ValueError, AttributeError) as error:
            there, here = event.versions.get(OURS), versions().get(OURS)
            is_other = there != here
            by = f" (by {OURS} {there}; here {here})" if is_other else ""
            self._notes.add(
                line,
                BUILT,
                f"{error or type(error).__name__}{by}",
                "cannot be determined" if is_other else "contradiction",
            )


def _start(conf: RunConf, event: RunStarted) -> dict[str, Any]:
    """The network of the name that is configured; of one in a file nothing is known here."""
    name, data = conf.start or conf.dataset.usual_start, event.dataset
    if name not in STARTS:
        return {}
    graph = start(name, image=data["image"], channels=data["channels"], classes=data["classes"])
    return {"start_graph": graph.fingerprint}


def _space(conf: RunConf, event: RunStarted) -> dict[str, Any]:
    """Budget and batch sizes, as `aiperf/planning/plan.py` works them out."""
    budget = Budget.of(
        decode(json.dumps(event.start_graph)), factor=conf.budget.factor, memory_bytes=None, batch=conf.budget.batch
    )
    made: dict[str, Any] = {
        "forward_flops": budget.forward_flops,
        "parameters": budget.parameters,
        "batch": budget.batch,
        "smallest_batch_size": conf.batch.smallest,
        "tuning_from_round": conf.schedule.warmup_rounds + 1,
    }
    if event.shape is not None:
        images, ranks = event.dataset["training_images"], event.shape.ranks
        made["default_batch_size"] = min(conf.batch.default, images // ranks)
        least = max(conf.batch.smallest or LEAST, images // (STEPS * ranks))
        made["largest_batch_size"] = conf.batch.largest or least
    return made
