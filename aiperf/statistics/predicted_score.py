"""Prediction of a run's score, made before the run: its figures, its JSON file, and the comparison with the run's options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from aiperf.given_file import fault_of, read_json
from aiperf.journal.events import NodeChecked
from aiperf.journal.options import OF_ONE_RUN, option_differences, without
from aiperf.statistics.estimate import deviation, quantile
from aiperf.system.describe import hash_of, versions
from aiperf.system.of_run import HASH, PROBE, hardware, hardware_differences, stored_descriptions

FORMAT = 2
"""Version of the JSON of a prediction. Format 1 has no digest."""
_RULE = f"a prediction is the JSON file of `predict --out`, format 1 or {FORMAT}"
_FIX = "name such a file, or write it again with `predict --out`"
DIGEST = "digest"
NOT_IN_DIGEST = (DIGEST, "schema", "version")
"""Members of the file that are no fields of the prediction."""
NOT_PREDICTED = OF_ONE_RUN | {"cluster", "executor", "storage"}
"""Parts that may differ between the prediction and the run: those of one run, and the place."""


@dataclass(frozen=True, slots=True)
class ScorePrediction:
    format: int
    release: str
    nodes: tuple[str | dict[str, str], ...]
    """Sorted kinds of hardware of the profile's nodes (format 1: hashes of descriptions). Empty if none was described."""
    source: str
    """Run of the profile."""
    source_hash: str
    """Hash of the last line of that run's journal."""
    workers: int
    is_extrapolated: bool
    """True if the number of workers differs from that of the profile."""
    config: dict[str, Any]
    """Configuration with the simulated cluster, which holds the figures of the profile."""
    dataset: dict[str, Any]
    scores: tuple[float, ...]
    """FLOPS of each simulation. Seeds are the configuration's seed, and the numbers after it."""
    shares: dict[str, float]
    """Mean share of each line of the time breakdown."""

    @property
    def score(self) -> float:
        """Predicted score in FLOPS: the mean of the simulations."""
        return fmean(self.scores)

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 95 % interval of one run's score in FLOPS, at least 0."""
        count = len(self.scores)
        half = quantile(count - 1) * deviation(self.scores) * sqrt(1 + 1 / count)
        return max(0.0, self.score - half), self.score + half


def as_json(of: ScorePrediction) -> dict[str, Any]:
    """Return the content of a prediction's file as a JSON object: all fields, score and interval (FLOPS), and their digest."""
    content: dict[str, Any] = json.loads(json.dumps(asdict(of) | {"score": of.score, "interval": of.interval}))
    return content | {DIGEST: digest(content)}


def digest(content: Mapping[str, Any]) -> str:
    return hash_of({name: value for name, value in content.items() if name not in NOT_IN_DIGEST})


def contradictions(content: Mapping[str, Any]) -> list[str]:
    """Return texts on the fields that do not follow from the others. Only `predict --again` repeats the simulations."""
    of = ScorePrediction(**{name: content[name] for name in ScorePrediction.__dataclass_fields__})
    cluster = of.config.get("cluster")
    known = {"score": of.score, "interval": list(of.interval)}
    known["workers"] = cluster.get("workers") if isinstance(cluster, dict) else None
    if of.format > 1:
        known[DIGEST] = digest(content)
    return [
        f"{name} is {content.get(name)!r}, but the other fields give {value!r}"
        for name, value in known.items()
        if content.get(name) != value
    ]


def read_prediction(path: Path) -> dict[str, Any]:
    """Return the JSON object in a prediction's file, as written by `predict --out`: the fields, score and interval (FLOPS)."""
    content = read_json(path, _RULE, dict[str, Any], _FIX)
    try:
        stored = msgspec.convert(content, ScorePrediction)
    except msgspec.ValidationError as error:
        raise fault_of(path, _RULE, _FIX)(f"has other content ({error})") from error
    if stored.format not in (1, FORMAT):
        raise fault_of(path, _RULE, _FIX)(f"has format {stored.format}")
    return content


def release() -> str:
    """Return the version of the installed package, or 'not installed as a package'."""
    return versions().get("aiperf-cluster", "not installed as a package")


def node_kinds(checks: Iterable[NodeChecked]) -> tuple[dict[str, str], ...]:
    """Return the sorted kinds of hardware in the nodes' descriptions, without repeats."""
    kinds = {tuple(hardware(each).items()) for each in stored_descriptions(checks).values()}
    return tuple(map(dict, sorted(kinds)))


def differing_nodes(content: Mapping[str, Any], checks: Iterable[NodeChecked]) -> list[str]:
    """Return texts on the nodes that differ between a prediction and a run, with both values."""
    predicted = content["nodes"]
    own: Iterable[Any] = node_kinds(checks := list(checks))
    if any(isinstance(each, str) for each in predicted):  # hashes, of an earlier release
        hashes = (check.readings.get(PROBE, {}).get("facts", {}).get(HASH) for check in checks)
        own = sorted({hash for hash in hashes if hash is not None})
    return hardware_differences(*({f"node {n}": each for n, each in enumerate(nodes, 1)} for nodes in (predicted, own)))


def differing_options(content: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    predicted, own = without(content["config"], NOT_PREDICTED), without(config, NOT_PREDICTED)
    return sorted(each.name for each in option_differences(predicted, own))
