"""Values of a run that the rules of a division check, each with its type and its line in the journal (event file)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiperf.ranking.law import Kind, written
from aiperf.rules.limits import inherits
from aiperf.units import duration, error, share

IMAGES = ("name", "training_images", "validation_images", "classes", "image", "channels", "noise")
"""Keys of RunStarted.dataset that a rule may name."""
NO_END = "no end in the journal"
FEW_PROPOSALS = 3
"""Ended proposals that no rule counts."""


def announced_seed(announcement: str, nonce: str | None) -> int:
    """Return the only permitted seed of an announced run: the first 8 hexadecimal digits of SHA-256(id, nonce) as a number.

    `announcement` is the id of the run's announcement, the SHA-256 of its signed text. `nonce`: signature of this id by another
    principal, unknown to the announcer before. None for journals from before nonces existed: the digits of the id, of which the
    announcer could choose the best by signing again.

    >>> announced_seed("0000002a" + 56 * "f", None), announced_seed("0000002a" + 56 * "f", "nonce")
    (42, 1775509038)
    """
    drawn = announcement if nonce is None else hashlib.sha256((announcement + nonce).encode()).hexdigest()
    return int(drawn[:8], 16)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Values of a run that rules check. None if the journal (event file) does not have the value."""

    is_simulated: bool
    config: Mapping[str, Any]
    """RunStarted.config, which holds the options."""
    images: Mapping[str, Any]
    """RunStarted.dataset."""
    start_network: str | None
    """Name of the built-in starting graph, or 'another'. None if this release cannot read the graph."""
    searchers: frozenset[str]
    """The configured searcher and the searchers of all proposals."""
    is_tuned: bool
    """True if tuning was chosen and a proposal from round 4 on was tuned, or no proposal reached round 4."""
    duration_seconds: float
    warmup_seconds: float
    window_seconds: float
    """Length of the valid window of the score."""
    end: float
    """Seconds since the start of the run."""
    end_reason: str
    precisions: frozenset[str]
    """Precisions that attempts reported. Empty if no attempt reported one."""
    devices: frozenset[str]
    """Models of the workers' accelerators."""
    error: float | None
    """Top-1 error. None without an evaluation, and for another metric."""
    rolled_back_lines: int
    resumes: int
    workers_lost: int
    """Lost workers, without those released in exchange for better nodes."""
    largest_mfu: float | None
    """Largest model FLOPS utilization, as a share. None if no dense peak is known."""
    nodes_checked: int
    """Nodes checked by preflight in the whole run, each counted once."""
    nodes_excluded: int | None
    """Checked nodes that got no worker because of a fault. None if an exclusion cannot be judged by its readings."""
    beside_master: frozenset[str] | None
    """Hosts that ran a driver while one of their workers trained in the valid window. None if hosts are not recorded."""
    space_differences: frozenset[str] | None
    """Differences of RunStarted.config.space from the space recomputed from options, starting graph and workers."""
    proposal_rules: int
    """RunStarted.proposal_rules: version of the rules by which proposals follow from the history."""
    seed: int
    announcement: str | None
    """Id of the announcement in the configuration. None if the run was not announced."""
    nonce: str | None
    """RunStarted.nonce: signature of this id by another principal. None if the journal has none."""
    contents: str | None
    """'shown' if the journal has the hash of the images' contents, and each copy was hashed again at the start. 'changed' if
    that found other contents. None if one of the two is missing."""
    attempts: int
    """Started attempts."""
    attempts_lost: int
    """Attempts that ended early while the driver was running, including attempts of lost workers."""
    trials_settled: int
    """Trials that are over: finished or given up."""
    trials_given_up: int
    """Failed trials, whatever the cause."""
    proposals_requested: int
    proposals_ended: int
    """Proposals whose generator ended or was silent, while their worker lived."""
    worker_class: str
    """'accelerator': each worker has one. 'node': all of a node. 'another': anything else."""
    sequence: str | None
    """SHA-256 of the list of the package that the run trained, 'another' for another list or data, None without a list."""
    changed_trials: int
    """Trials of a list that were rejected or had their batch reduced. 0 without a list."""
    ended_early: int
    """Lost attempts, and failed trials whose last attempt was not lost (diverged, out of memory)."""
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Journal line by (fact, value). A fact without a line follows from the whole journal."""

    @property
    def excluded_share(self) -> float | None:
        """Nodes without a worker because of a fault ÷ nodes that preflight checked, 0..1. 0 if none was checked."""
        if self.nodes_excluded is None:
            return None
        return self.nodes_excluded / self.nodes_checked if self.nodes_checked else 0.0

    @property
    def lost_share(self) -> float:
        """Lost attempts ÷ started attempts (starts of a training), 0..1. 0 without attempts."""
        return self.attempts_lost / self.attempts if self.attempts else 0.0

    @property
    def given_up_share(self) -> float:
        """Failed trials ÷ trials (trainings of one network) that are over, 0..1. 0 if no trial is over."""
        return self.trials_given_up / self.trials_settled if self.trials_settled else 0.0

    @property
    def ended_early_share(self) -> float:
        """Attempts and trials that ended early ÷ started attempts, 0..1. 0 without attempts."""
        return self.ended_early / self.attempts if self.attempts else 0.0

    @property
    def proposals_ended_share(self) -> float:
        """Ended proposals ÷ requested proposals, 0..1. 0 for at most FEW_PROPOSALS, which a short run also loses."""
        is_few = self.proposals_ended <= FEW_PROPOSALS
        return 0.0 if is_few else self.proposals_ended / self.proposals_requested

    @property
    def is_system_named(self) -> bool:
        """True if the configuration names the site and the system (system.site, system.name) that the run measures."""
        system = self.config.get("system")
        return isinstance(system, Mapping) and all(
            isinstance(system.get(part), str) and system[part].strip() for part in ("site", "name")
        )

    @property
    def inherits(self) -> bool:
        return inherits(self.config)

    @property
    def seed_source(self) -> str:
        """Origin of the seed: 'announcement' (id and nonce), 'announcer' (id alone), 'another seed' or 'no announcement'."""
        if self.announcement is None:
            return "no announcement"
        if self.seed != announced_seed(self.announcement, self.nonce):
            return "another seed"
        return "announcer" if self.nonce is None else "announcement"


@dataclass(frozen=True, slots=True)
class Fact:
    kind: Kind
    found: Callable[[Candidate], str]
    """Function that returns the text of a value that breaks a rule."""
    of_result: bool = False
    """True for a result of a run. Results of simulated runs are invented, so no rule is applied to them."""
    missing: str | None = None
    """Reason for an unknown value."""
    is_breach_if_missing: bool = False
    """True if a missing value breaks a rule, instead of being unknown."""


def losses(run: Candidate) -> str:
    """Return the numbers and shares of lost attempts and of failed trials as text for display next to a score."""
    return (
        f"attempts lost: {run.attempts_lost} of {run.attempts} ({share(run.lost_share)}), "
        f"trials given up: {run.trials_given_up} of {run.trials_settled} ({share(run.given_up_share)})"
    )


def _seed(run: Candidate) -> str:
    if run.announcement is None:
        return "the configuration names no announcement"
    if run.seed_source == "announcer":
        return "the seed follows from the announcement alone, so its announcer could choose it"
    return f"seed {run.seed}. Seed {announced_seed(run.announcement, run.nonce)} follows from the announcement"


def _contents(run: Candidate) -> str:
    if run.images.get("contents") is None:
        return "the journal has no hash of the data set's contents"
    return "not all copies of the data set were hashed at the start of the run"


def _peak(run: Candidate) -> str:
    devices, precisions = (", ".join(sorted(names)) or "none" for names in (run.devices, run.precisions))
    return f"no dense peak is known (device {devices}, precision {precisions})"


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
    "inherits": Fact("truth", lambda run: "children begin with fresh weights"),
    "duration_seconds": Fact("number", lambda run: f"a declared length of {duration(run.duration_seconds)}"),
    "warmup_seconds": Fact("number", lambda run: f"warm-up of {duration(run.warmup_seconds)}"),
    "window_seconds": Fact("number", lambda run: f"a window of {duration(run.window_seconds)}"),
    "space_differences": Fact(
        "words",
        lambda run: "; ".join(sorted(run.space_differences or ())),
        missing="the journal lacks a value from which the space follows",
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
        missing="no attempt reported its precision",
    ),
    "error": Fact(
        "number",
        lambda run: "no top-1 error" if run.error is None else f"error {error(run.error)}",
        of_result=True,
        is_breach_if_missing=True,
    ),
    "largest_mfu": Fact("number", lambda run: f"MFU {share(run.largest_mfu or 0.0)}", of_result=True),
    "beside_master": Fact(
        "words",
        lambda run: f"a worker trained on the driver's host, {_listed(run.beside_master)}",
        of_result=True,
        missing="the journal does not record the hosts of the driver and the workers",
    ),
    "excluded_share": Fact(
        "number",
        lambda run: f"{run.nodes_excluded} of {run.nodes_checked} were, by preflight",
        of_result=True,
        missing="the journal does not record the kinds of its nodes, by which an exclusion is judged",
    ),
    "proposal_rules": Fact("number", lambda run: f"rules {run.proposal_rules} of proposing"),
    "seed_source": Fact("word", _seed),
    "is_system_named": Fact("truth", lambda run: "system.site or system.name is not given"),
    "contents": Fact("word", lambda run: "files on a node differ from the contents in the journal"),
    "proposals_ended_share": Fact(
        "number", lambda run: f"{run.proposals_ended} of {run.proposals_requested}", of_result=True
    ),
    "worker_class": Fact(
        "word", lambda run: f"accelerators_per_worker={written(run.config.get('accelerators_per_worker'))}"
    ),
    "sequence": Fact(
        "word",
        lambda run: "no list" if run.sequence is None else "another list, or other data",
        is_breach_if_missing=True,
    ),
    "changed_trials": Fact("number", lambda run: f"{run.changed_trials} were", of_result=True),
    "ended_early_share": Fact("number", lambda run: f"{share(run.ended_early_share)}, {losses(run)}", of_result=True),
}


def chosen(config: Mapping[str, Any], part: str) -> str | None:
    """Name of the choice for a part, such as 'imagenet' for 'dataset'. None if the part or its name is missing."""
    choice = config.get(part)
    name = choice.get("name") if isinstance(choice, Mapping) else None
    return None if name is None else str(name)


def value_of(run: Candidate, name: str) -> Any:
    """Return the value that rules check under this name, such as 'error' or 'lost_share'. None if it is unknown."""
    value = getattr(run, name)
    return None if name == "precisions" and not value else value


def why_missing(run: Candidate, name: str) -> str:
    """Return the reason why a value of a run is unknown, as text. `name`: key of FACTS, such as 'largest_mfu'."""
    of_run = {"largest_mfu": _peak, "contents": _contents}.get(name)
    return of_run(run) if of_run is not None else FACTS[name].missing or "not in the journal"
