"""What keeps a run out of the ranking: every breach listed at once.

Source: docs/benchmark.md, "A run that may be ranked" (the paper's Table IV, and decisions of this project). What the options
of a run must say is a table (`aiperf.ranking.required`); here are the rules on what came of them. A run that breaks a rule
still gets its figures; they are headed by these. A simulated run is never ranked; it is told besides which rules its
configuration would break on a real machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aiperf.accounting.windows import Window
from aiperf.ranking.required import Found, offences, written
from aiperf.units import duration, error, share

LARGEST_ERROR = 0.30
SHORTEST_WARMUP_SECONDS = 3600.0
SHORTEST_WINDOW_SECONDS = 3600.0
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
IMAGES = {
    "name": "imagenet",
    "training_images": 1_281_167,
    "validation_images": 50_000,
    "classes": 1000,
    "image": 224,
    "channels": 3,
}
"""What RunStarted.dataset says of all of ImageNet."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One rule, what was found, and what would fix it."""

    rule: str
    found: str
    remedy: str
    is_unknown: bool = False
    """Whether it cannot be told if the rule is kept. That is no pass: it keeps a run out as well."""
    option: str | None = None
    """The option that the rule is about, where it is about one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the rules look at."""

    is_simulated: bool
    config: Mapping[str, Any]
    """RunStarted's."""
    images: Mapping[str, Any]
    """RunStarted.dataset."""
    start_fingerprint: str | None
    """None: the starting graph could not be read by this release."""
    ranked_fingerprint: str
    """That of resnet50_v1 at 224×224 with 1000 classes."""
    searchers: frozenset[str]
    """The configured one, and those that made the proposals."""
    is_tuned: bool
    """Whether tuning was chosen, and a proposal from round 4 on was tuned, or none was made that late."""
    duration_seconds: float
    warmup_seconds: float
    window_seconds: float
    """The score's own."""
    end: float
    end_reason: str | None
    precisions: frozenset[str]
    devices: frozenset[str]
    """Models of the workers' accelerators."""
    error: float | None
    rolled_back_lines: int
    largest_mfu: float | None
    """None: there is no dense peak to hold the work against."""
    nodes_checked: int
    """By preflight, over the whole run: each node once."""
    nodes_excluded: int
    """Of these, those that got no worker for a fault."""
    beside_master: tuple[str, ...] | None
    """Hosts that a driver ran on while one of their workers trained in the valid window; None: the journal does not tell."""


SIMULATED = Breach(
    "a real machine", "a simulated run: virtual clock, invented learning curves", "run it on the machine"
)
"""The breach that every simulated run has."""


def _dataset(run: Candidate) -> Breach | None:
    rule, remedy = (
        "ImageNet: 1,281,167 training and 50,000 validation images of 1000 classes, 224×224×3",
        "dataset=imagenet",
    )
    unknown = [name for name in IMAGES if name not in run.images]
    if unknown:
        found = f"unknown: the journal does not tell of the data set: {', '.join(unknown)}"
        return Breach(rule, found, remedy, is_unknown=True)
    others = [f"{name} {run.images[name]}" for name, right in IMAGES.items() if run.images[name] != right]
    found = f"data set {run.images['name']!r}, not all of ImageNet ({', '.join(others)})"
    return Breach(rule, found, remedy) if others else None


def _start(run: Candidate) -> Breach | None:
    if run.start_fingerprint == run.ranked_fingerprint:
        return None
    return Breach("the starting graph is resnet50_v1", "another starting graph", "schedule=ranking")


def _searcher(run: Candidate) -> Breach | None:
    if run.searchers <= {"morphism"}:
        return None
    others = ", ".join(sorted(run.searchers - {"morphism"}))
    return Breach("network morphism guided by Bayesian optimisation", f"searcher {others}", "searcher=morphism")


def _tuning(run: Candidate) -> Breach | None:
    if run.is_tuned:
        return None
    return Breach("TPE over batch size and kernel size from round 4", "no proposal was tuned", "hpo=tpe")


def _warmup(run: Candidate) -> Breach | None:
    if run.warmup_seconds >= SHORTEST_WARMUP_SECONDS:
        return None
    return Breach("warm-up of 1 h", f"warm-up of {duration(run.warmup_seconds)}", "schedule=ranking")


def _window(run: Candidate) -> Breach | None:
    if run.window_seconds >= SHORTEST_WINDOW_SECONDS:
        return None
    return Breach("a valid window of 1 h or more", f"a window of {duration(run.window_seconds)}", "schedule=ranking")


def _length(run: Candidate) -> Breach | None:
    if run.end_reason == "duration":
        return None
    found = f"ended after {duration(run.end)}: {run.end_reason or 'no end in the journal'}"
    return Breach(f"the declared length, {duration(run.duration_seconds)}, is run to its end", found, "resume=RUN")


def _rollback(run: Candidate) -> Breach | None:
    if not run.rolled_back_lines:
        return None
    found = f"{run.rolled_back_lines} lines were rolled back (resume_until)"
    return Breach(
        "nothing that happened is taken back", found, "a run that is resumed where its journal ends, or another"
    )


def _precision(run: Candidate) -> Breach | None:
    rule = "16-bit float or more"
    if not run.precisions:
        return Breach(rule, "unknown: no attempt got as far as to say its precision", "a longer run", is_unknown=True)
    below = sorted(run.precisions - set(PRECISIONS))
    if not below:
        return None
    return Breach(rule, f"precision {', '.join(below)}", "trainer.precision=bf16")


def _error(run: Candidate) -> Breach | None:
    if run.error is not None and run.error <= LARGEST_ERROR:
        return None
    found = "no evaluation" if run.error is None else f"error {error(run.error)}"
    return Breach(f"error of {share(LARGEST_ERROR, 0)} or less at the end", found, "a longer run")


def _peak(run: Candidate) -> Breach | None:
    rule = "no accelerator above its dense peak"
    if run.largest_mfu is None:
        devices, precisions = (", ".join(sorted(names)) or "none" for names in (run.devices, run.precisions))
        found = f"unknown: no one dense peak is known for what was used (device {devices}; precision {precisions})"
        remedy = "a row with its source in aiperf/system/peaks.json; one kind of device, one precision"
        return Breach(rule, found, remedy, is_unknown=True)
    if run.largest_mfu <= 1.0:
        return None
    return Breach(rule, f"MFU {share(run.largest_mfu)}", "find what is counted wrongly")


def _master(run: Candidate) -> Breach | None:
    rule = "the master holds no accelerator's work"
    remedy = "start the run on a machine that holds no worker"
    if run.beside_master is None:
        found = "unknown: the journal does not tell which host the driver and each worker were on"
        return Breach(rule, found, remedy, is_unknown=True)
    if not run.beside_master:
        return None
    return Breach(rule, f"a worker trained on the driver's host, {', '.join(run.beside_master)}", remedy)


def _excluded(run: Candidate) -> Breach | None:
    most = (run.config.get("preflight") or {}).get("most_excluded")
    if not run.nodes_excluded or most is None or run.nodes_excluded <= most * run.nodes_checked:
        return None
    return Breach(
        f"at most {share(most)} of the nodes excluded (preflight.most_excluded): a score is a machine's, not its best part's",
        f"{run.nodes_excluded} of {run.nodes_checked} were, by preflight",
        "mend the nodes that the report names, or leave them out of the job",
    )


def of_option(found: Found) -> Breach:
    """An option that is not as the table has it, in words."""
    required = found.required
    rule = f"{required.option} is {required.law}"
    if found.is_missing:
        return Breach(rule, "unknown: this journal does not say", "a run of this release", True, required.option)
    # Neither name nor value of the law is what a user must write where the law is a bound.
    return Breach(
        rule, f"{required.option}={written(found.value)}", "as schedule=ranking has it", False, required.option
    )


Rule = Callable[[Candidate], Breach | None]

OF_THE_CONFIGURATION: tuple[Rule, ...] = (_dataset, _start, _searcher, _tuning, _warmup, _window)
OF_THE_RESULT: tuple[Rule, ...] = (_length, _rollback, _precision, _error, _peak, _master, _excluded)
"""In the order in which breaches are shown. That the journal is intact was checked when it was read."""


def breaches(run: Candidate) -> tuple[Breach, ...]:
    """Every rule that the run breaks, or of which it cannot be told; empty: nothing in this journal keeps it out.

    Of a simulated run: SIMULATED, then what a real run of its configuration and declared length would break as well. No rule
    looks at its precision, error and speed, which are invented.
    """
    if run.is_simulated:
        declared = replace(run, window_seconds=Window(run.warmup_seconds, run.duration_seconds).seconds)
        return (SIMULATED, *_broken(OF_THE_CONFIGURATION, declared), *_options(run))
    return (*_broken(OF_THE_CONFIGURATION + OF_THE_RESULT, run), *_options(run))


def _broken(rules: tuple[Rule, ...], run: Candidate) -> tuple[Breach, ...]:
    return tuple(breach for rule in rules if (breach := rule(run)) is not None)


def _options(run: Candidate) -> Iterator[Breach]:
    """Those of the configuration's table."""
    return map(of_option, offences(run.config))
