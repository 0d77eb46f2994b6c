"""What the rules of a division look at: facts of a run, each with its type, and the journal's line that shows it.

A rule names a fact by its field here, so that a YAML which names another is refused when it is loaded. How a journal becomes
a Candidate is `aiperf.report.candidate`'s matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiperf.ranking.law import Kind
from aiperf.units import duration, error, share

IMAGES = ("name", "training_images", "validation_images", "classes", "image", "channels", "noise")
"""What RunStarted.dataset says of the images, as a rule may name it."""
NO_END = "no end in the journal"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run as the rules see it. None: the journal does not tell."""

    is_simulated: bool
    config: Mapping[str, Any]
    """RunStarted's: what options are looked up in."""
    images: Mapping[str, Any]
    """RunStarted.dataset."""
    start_network: str | None
    """Under which name a starting graph for the run's images is this run's, or 'another'. None: this release cannot read it."""
    searchers: frozenset[str]
    """The configured one, and those that made the proposals."""
    is_tuned: bool
    """Whether tuning was chosen, and a proposal from round 4 on was tuned, or none was made that late."""
    duration_seconds: float
    warmup_seconds: float
    window_seconds: float
    """The score's own."""
    end: float
    end_reason: str
    """RunEnded's, or NO_END."""
    precisions: frozenset[str]
    """Those that attempts said they had. Empty: none got as far."""
    devices: frozenset[str]
    """Models of the workers' accelerators."""
    error: float | None
    """None: no evaluation."""
    rolled_back_lines: int
    resumes: int
    workers_lost: int
    """But for those that were let go for better places."""
    largest_mfu: float | None
    """None: there is no dense peak to hold the work against."""
    nodes_checked: int
    """By preflight, over the whole run: each node once."""
    nodes_excluded: int
    """Of these, those that got no worker for a fault."""
    beside_master: frozenset[str] | None
    """Hosts that a driver ran on while one of their workers trained in the valid window; None: the journal does not tell."""
    space_differences: frozenset[str] | None
    """What RunStarted.config.space says otherwise than follows from the options, the starting graph and the workers' shape."""
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The line of the journal that shows a fact: by fact and, where it has several values, value. A fact without one follows
    from the whole of the journal."""

    @property
    def excluded_share(self) -> float:
        """Of the nodes that preflight checked."""
        return self.nodes_excluded / self.nodes_checked if self.nodes_checked else 0.0


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact that a rule can be about."""

    kind: Kind
    told: Callable[[Candidate], str]
    """What was found, in words, where a law does not hold of it."""
    of_result: bool = False
    """Whether it is about what came of a run: in a simulated run such facts are invented, and no rule looks at them."""
    missing: str | None = None
    """Why it cannot be determined, where it is None."""
    is_breach_if_missing: bool = False
    """Its absence is what a rule on it refuses: no evaluation is no small error."""


def _peak(run: Candidate) -> str:
    devices, precisions = (", ".join(sorted(names)) or "none" for names in (run.devices, run.precisions))
    return f"no one dense peak is known for what was used (device {devices}; precision {precisions})"


def _listed(names: frozenset[str] | None) -> str:
    return ", ".join(sorted(names or ()))


FACTS: dict[str, Fact] = {
    "is_simulated": Fact("truth", lambda run: "a simulated run: virtual clock, invented learning curves"),
    "images": Fact("table", lambda run: f"data set {run.images.get('name')!r}"),
    "start_network": Fact(
        "word",
        lambda run: f"{'another starting graph' if run.start_network == 'another' else run.start_network}",
        missing="this release cannot read the starting graph",
    ),
    "searchers": Fact("words", lambda run: f"searcher {_listed(run.searchers)}"),
    "is_tuned": Fact("truth", lambda run: "no proposal was tuned"),
    "duration_seconds": Fact("number", lambda run: f"a declared length of {duration(run.duration_seconds)}"),
    "warmup_seconds": Fact("number", lambda run: f"warm-up of {duration(run.warmup_seconds)}"),
    "window_seconds": Fact("number", lambda run: f"a window of {duration(run.window_seconds)}"),
    "space_differences": Fact(
        "words",
        lambda run: "; ".join(sorted(run.space_differences or ())),
        missing="the journal does not hold what a space is worked out from",
    ),
    "end_reason": Fact("word", lambda run: f"ended after {duration(run.end)}: {run.end_reason}", of_result=True),
    "rolled_back_lines": Fact(
        "number", lambda run: f"{run.rolled_back_lines} lines were rolled back (resume_until)", of_result=True
    ),
    "resumes": Fact("number", lambda run: f"resumed {run.resumes} times", of_result=True),
    "workers_lost": Fact("number", lambda run: f"{run.workers_lost} workers lost", of_result=True),
    "precisions": Fact(
        "words",
        lambda run: f"precision {_listed(run.precisions)}",
        of_result=True,
        missing="no attempt got as far as to say its precision",
    ),
    "error": Fact(
        "number",
        lambda run: "no evaluation" if run.error is None else f"error {error(run.error)}",
        of_result=True,
        is_breach_if_missing=True,
    ),
    "largest_mfu": Fact("number", lambda run: f"MFU {share(run.largest_mfu or 0.0)}", of_result=True),
    "beside_master": Fact(
        "words",
        lambda run: f"a worker trained on the driver's host, {_listed(run.beside_master)}",
        of_result=True,
        missing="the journal does not tell which host the driver and each worker were on",
    ),
    "excluded_share": Fact(
        "number",
        lambda run: f"{run.nodes_excluded} of {run.nodes_checked} were, by preflight",
        of_result=True,
    ),
}
"""By name. Of each, a Candidate has a field or property of that name."""


def chosen(config: Mapping[str, Any], part: str) -> str | None:
    """Which choice of a part of the configuration was made; None: it does not say."""
    told = config.get(part)
    name = told.get("name") if isinstance(told, Mapping) else None
    return None if name is None else str(name)


def value_of(run: Candidate, name: str) -> Any:
    """Of a fact; None: it cannot be determined. Nothing was said of precisions where no attempt got as far."""
    found = getattr(run, name)
    return None if name == "precisions" and not found else found


def why_missing(run: Candidate, name: str) -> str:
    """Why a fact cannot be determined."""
    return _peak(run) if name == "largest_mfu" else FACTS[name].missing or "the journal does not tell"
