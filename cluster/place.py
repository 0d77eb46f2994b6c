"""Where a run takes place: what every kind of cluster is asked, and what it may answer.

A kind is a class of configuration in a file of its own here, listed in `kinds.py`. It answers with values: what Ray the driver
is to use (`Place`), and, where a scheduler brings the machines, the job that is to be submitted (`BatchJob`). Carrying them out
is the business of `aiperf.drive`; nothing else in the benchmark knows where a run takes place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LONGEST_SECONDS = 366 * 86400
"""Of whatever is waited for."""
MOST_NODES = 1_000_000
"""Of any number of hosts, nodes or pods: six times the 158,976 nodes of Fugaku."""
MOST_OF_A_NODE = 65_536
"""Processors, or accelerators, of one node."""
LINE = r"[^\x00\r\n]+"
"""A regular expression of a text that is one line, and not empty."""
BYTES = r"(?i:[1-9][0-9]{0,15}[KMGT](i?B)?)"
"""Likewise of what `bytes_of` reads."""
BYTES_IN_WORDS = "a number with K, M, G or T, of 1024 each: 80G"
WORD = r"[^\s\x00]+"
"""Likewise of one word."""
HEAD_LOST = 3
"""The exit status of `python -m aiperf join` where the run's head has gone without ending its run."""


def form(pattern: str, words: str) -> dict[str, tuple[str, str]]:
    """The metadata of a field whose text, or each text of whose list, a pattern matches as a whole; `words` say the same."""
    return {"form": (pattern, words)}


@dataclass(frozen=True, slots=True)
class Here:
    """On this machine alone."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """On no machine: under a virtual clock."""


@dataclass(frozen=True, slots=True)
class Head:
    """Ray's head is started beside the driver; each other node joins it by `python -m aiperf join RUN`."""

    nodes: int
    """All of them, the head's among them. None begins before they have joined."""
    fewest_nodes: int
    """With so many the run begins when `patience_seconds` are over."""
    patience_seconds: float
    address: str | None = None
    """Of the head's host, as the others reach it; none: what its name stands for."""
    trains: bool = True
    """Whether workers may be on the head's node too."""


class Reached(Protocol):
    """How hosts are reached: command lines and scripts, as values."""

    def words(self, host: str, script: str) -> list[str]:
        """The command line that has a host carry out a script of sh(1)."""
        ...

    def looking(self, folder: Path, python: str, directory: Path) -> str:
        """The script that says whether a host could join the run in `folder`: status 0, or one that `fault_of` explains."""
        ...

    def joining(self, folder: Path, python: str, directory: Path) -> str:
        """The script with which it does, for the length of the run."""
        ...


@dataclass(frozen=True, slots=True)
class Invited:
    """Ray's head is started beside the driver, which has each of these hosts join it."""

    hosts: tuple[str, ...]
    head: Head
    again_seconds: float
    """A host that was lost is reached for again for so long."""
    reached: Reached


@dataclass(frozen=True, slots=True)
class Demand:
    """Nodes that a Ray with an autoscaler is to have, whether work waits for them yet or not."""

    nodes: int
    each: Mapping[str, float]
    """Ray's resources of a node, all of which one worker takes: {"CPU": 32, "GPU": 8}."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A Ray that others have started, and will end."""

    address: str
    """As `ray.init` takes it: "HOST:PORT", or "auto" on one of its nodes."""
    nodes: int
    fewest_nodes: int
    patience_seconds: float
    demand: Demand | None = None
    """What its autoscaler is asked for as long as the run goes on; None: nothing, the nodes are those that others bring."""


Place = Here | Simulated | Head | Invited | Existing


@dataclass(frozen=True, slots=True)
class NodesAsked:
    """What a place can say of its nodes before they are there: what they are asked for with. None: it is learnt from them."""

    nodes: int | None = None
    """With which a run begins."""
    most_nodes: int | None = None
    """Up to which it may grow; None: no more than `nodes`."""
    accelerators: int | None = None
    """Of each node."""
    accelerator: str | None = None
    """Their model, or a part of its name."""
    accelerator_bytes: int | None = None
    """Memory of one."""
    cores: int | None = None
    """Of each node."""
    memory_bytes: int | None = None
    """Of each node."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A run that is to be handed to a scheduler."""

    name: str
    folder: Path
    """The run's, absolute, on a file system that all nodes share. One that is repeated has folders beside it."""
    words: Sequence[str]
    """Its options, as they were typed; none for a run that goes on, whose options stand in its journal."""
    seconds: float
    """Its declared time."""
    python: str
    """The interpreter, as the nodes find it."""
    directory: Path
    """The working directory, against which relative paths among the options are read."""
    verb: Sequence[str] = ("drive",)
    """What `python -m aiperf` is to do on the first node, before the folder and the options."""
    program: str = "python -m aiperf"
    """What was typed here before the options: how commands that are told to people begin."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as its scheduler sees it."""

    name: str
    """In the scheduler's word: PENDING, RUNNING, …"""
    reason: str
    """Why it waits, or why it ended; '' where there is nothing to say."""
    nodes: str
    is_over: bool
    is_hopeless: bool = False
    """It waits for what it will never be given: for more nodes or time than anybody may have there."""


class BatchJob(Protocol):
    """A run as a job of a scheduler."""

    @property
    def script(self) -> str:
        """What is submitted, whole."""
        ...

    @property
    def script_name(self) -> str:
        """Under which it is kept in the run's folder."""
        ...

    @property
    def folders(self) -> Sequence[Path]:
        """One for each run: more than one where it is repeated."""
        ...

    def submit(self, script: Path) -> str:
        """Hands the kept script in; gives the job's id. Raises ClusterError in the scheduler's own words."""
        ...

    def run_here(self, script: Path) -> int:
        """Carries the script out within the allocation that this process is in; gives its exit status."""
        ...

    def state(self, job: str) -> JobState:
        """How the job stands."""
        ...

    def cancel(self, job: str) -> None:
        """Takes it back."""
        ...

    def lines(self, job: str) -> Sequence[str] | None:
        """What the run says of itself where it goes on; None: its folder is this machine's too, and tells."""
        ...

    def fetch(self, job: str) -> None:
        """Brings what is to be read of a run that has ended into its folder here, where that is another than the run's own."""
        ...

    @property
    def advice(self) -> str:
        """What to change where a job would wait for ever."""
        ...

    @property
    def last_words(self) -> str:
        """Where it stands why a job ended before its run began."""
        ...

    @property
    def how_to_look(self) -> str:
        """The command that shows how the run stands while it goes on."""
        ...


class ClusterError(Exception):
    """The scheduler refused, or is not there; its words, and what can be done."""


@dataclass
class ClusterConf:
    """What all places have in common."""

    kind: str = "???"
    """Which kind of place; set by the choice of the group."""

    def check(self) -> None:
        """Raises ValueError, saying law, offence and remedy, for values that make no sense together."""

    def place(self, environment: Mapping[str, str]) -> Place:
        """What the driver is to use, which runs in this environment."""
        raise NotImplementedError

    def job(self, submission: Submission) -> BatchJob:
        """The job that brings the machines, where a scheduler does (`has_jobs`)."""
        raise NotImplementedError

    def is_allocated(self, environment: Mapping[str, str]) -> bool:
        """Whether this environment is within an allocation of the scheduler, so that nothing need be submitted."""
        return False

    def nodes_asked(self) -> NodesAsked:
        """What is known of the nodes before they are there."""
        return NodesAsked()

    def asked_for(self, seconds: float) -> Sequence[tuple[str, str]]:
        """What will be asked for, or waited for, in words: a name and a value each. `seconds`: the run's declared time."""
        return [("place", f"+cluster={self.kind}")]

    def workers_in_words(self) -> str:
        """How many workers there will be, as far as that is known."""
        return f"as many as the nodes of +cluster={self.kind} hold"

    @property
    def is_joined(self) -> bool:
        """Whether hosts join this machine through the run's folder, and no job of a scheduler has made that."""
        return False

    def shown(self, folder: Path, python: str, directory: Path) -> str:
        """What `submit=false` prints where there is no job (`is_joined`)."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """What is said before a run begins: what was asked for and has no effect there, or what others decide."""
        return []

    @property
    def has_jobs(self) -> bool:
        """Whether a scheduler brings the machines: the driver then runs within a job, by `python -m aiperf drive`."""
        return False

    @property
    def wants_submission(self) -> bool:
        """Whether the job is to be submitted, rather than shown alone."""
        return True

    @property
    def wants_following(self) -> bool:
        """Whether it is shown how the job goes until it ends."""
        return True


@dataclass
class NodesConf(ClusterConf):
    """What all places with machines have in common."""

    accelerator: str | None = field(default=None, metadata=form(LINE, "a model or a part of its name, H100"))
    """Model of the nodes' accelerators, or a part of its name, H100: a dry run says it, and a run on others ends before it
    begins. None: learnt from the nodes."""
    accelerator_memory: str | None = field(default=None, metadata=form(BYTES, BYTES_IN_WORDS))
    """Of one accelerator, 80G: a dry run plans with it, and a run on others ends before it begins. None: learnt from the
    nodes."""

    def nodes_asked(self) -> NodesAsked:
        """What is declared of the accelerators."""
        memory = self.accelerator_memory
        known = None if memory is None else bytes_of("cluster.accelerator_memory", memory)
        return NodesAsked(accelerator=self.accelerator, accelerator_bytes=known)


@dataclass
class BatchConf(NodesConf):
    """What all places have in common whose machines a scheduler brings."""

    submit: bool = True
    """false: print what would be submitted on standard output, and nothing else."""
    follow: bool = True
    """Show how the run goes until it ends; Ctrl-C leaves it running."""

    @property
    def has_jobs(self) -> bool:
        """Always."""
        return True

    @property
    def wants_submission(self) -> bool:
        """See `ClusterConf.wants_submission`."""
        return self.submit

    @property
    def wants_following(self) -> bool:
        """See `ClusterConf.wants_following`."""
        return self.follow


def place_of(cluster: ClusterConf | None, environment: Mapping[str, str]) -> Place:
    """Where a run takes place; without a cluster on this machine."""
    return Here() if cluster is None else cluster.place(environment)


def bytes_of(option: str, word: str, default_unit: str | None = None) -> int:
    """Bytes that a word like 80G means, in powers of 1024. `default_unit`: of a number that has none.

    >>> bytes_of("cluster.accelerator_memory", "80G"), bytes_of("cluster.memory_per_node", "512", "M")
    (85899345920, 536870912)

    Raises ValueError for any other word.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,15})([KMGT]?)(?:i?B)?", word, re.IGNORECASE)
    unit = (found and found[2].upper()) or default_unit
    if found is None or unit is None:
        raise ValueError(f"{option} is {BYTES_IN_WORDS}; found {word!r}: write it so")
    power: int = 1024 ** ("KMGT".index(unit) + 1)
    return int(found[1]) * power
