"""Interface of all kinds of cluster.

A kind is a configuration class in its own file here, and is listed in `kinds.py`. It returns values: the Ray that the
driver must use (`Place`), and the job to submit if a scheduler starts the machines (`BatchJob`). `aiperf.drive` carries
them out. No other code depends on the kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LONGEST_SECONDS = 366 * 86400
"""Maximum of any waiting time."""
MOST_NODES = 1_000_000
"""Maximum number of hosts, nodes or pods: six times the 158,976 nodes of Fugaku."""
MOST_OF_A_NODE = 65_536
"""Maximum number of processors, or of accelerators, of one node."""
LINE = r"[^\x00\r\n]+"
"""Regular expression of a text of one line that is not empty."""
BYTES = r"(?i:[1-9][0-9]{0,15}[KMGT](i?B)?)"
"""Regular expression of the texts that `bytes_of` reads."""
BYTES_IN_WORDS = "a number with K, M, G or T, of 1024 each: 80G"
WORD = r"[^\s\x00]+"
"""Regular expression of one word."""
HEAD_FILE = "ray-head.json"
"""File in the run's folder with address and token of the run's own Ray. Each driver replaces it."""
HEAD_LOST = 3
"""Exit status of `python -m aiperf join` if the run's head has ended without ending its run."""


def form(pattern: str, words: str) -> dict[str, tuple[str, str]]:
    """Return the metadata of a dataclass field for a text, or a list of texts, that must match a regular expression.

    `words`: the expected text in words, for errors.
    """
    return {"form": (pattern, words)}


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """Place on this machine alone."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """Place without a machine, under a virtual clock."""


@dataclass(frozen=True, slots=True)
class HeadPlace:
    """Place with Ray's head next to the driver. Each other node joins it by `python -m aiperf join RUN`."""

    nodes: int
    """Number of nodes, with the head's. None begins before all have joined."""
    fewest_nodes: int
    """Minimum number of nodes after `patience_seconds`."""
    patience_seconds: float
    address: str | None = None
    """Address of the head's host for the others. None if it is that of its host name."""
    trains: bool = True
    """True if workers may be on the head's node."""


@dataclass(frozen=True, slots=True)
class InvitedPlace:
    """Place with Ray's head next to the driver, which connects to each of these hosts."""

    hosts: tuple[str, ...]
    head: HeadPlace
    again_seconds: float
    """Maximum seconds for reconnections to a lost host."""
    check_command: Callable[[str, Path], list[str]]
    """Function that returns the command line that checks whether a host can join the run in a folder."""
    join_command: Callable[[str, Path], list[str]]
    """Function that returns the command line with which a host joins the run in a folder."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Nodes that Ray's autoscaler must provide, independent of waiting work."""

    nodes: int
    each: Mapping[str, float]
    """Ray resources of a node, all used by one worker: {"CPU": 32, "GPU": 8}."""


@dataclass(frozen=True, slots=True)
class Existing:
    """Existing Ray cluster, which the run does not end."""

    address: str
    """Address for `ray.init`: "HOST:PORT", or "auto" on one of its nodes."""
    nodes: int
    fewest_nodes: int
    patience_seconds: float
    demand: Demand | None = None
    """Request to the autoscaler during the run. None if nodes are not requested."""


Place = LocalPlace | Simulated | HeadPlace | InvitedPlace | Existing


@dataclass(frozen=True, slots=True)
class NodesAsked:
    """Requested nodes of a place, before they exist. None if a value is known only from the nodes."""

    nodes: int | None = None
    """Number of nodes with which a run begins."""
    most_nodes: int | None = None
    """Maximum number of nodes. None if it equals `nodes`."""
    accelerators: int | None = None
    """Number of accelerators of each node."""
    accelerator: str | None = None
    """Model of the accelerators, or a part of its name."""
    accelerator_bytes: int | None = None
    """Memory of one accelerator in bytes."""
    cores: int | None = None
    """Number of processors of each node."""
    memory_bytes: int | None = None
    """Memory of each node in bytes."""


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """Run to submit to a scheduler."""

    name: str
    folder: Path
    """Absolute path of the run's folder, on a file system that all nodes share."""
    words: Sequence[str]
    """Options as typed. Empty if the run is resumed, since its journal contains the options."""
    seconds: float
    """Declared length of the run in seconds."""
    python: str
    """Path of the Python interpreter on the nodes."""
    directory: Path
    """Working directory, for relative paths among the options."""
    verb: Sequence[str] = ("drive",)
    """Verb of `python -m aiperf` on the first node, before the folder and the options."""
    program: str = "python -m aiperf"
    """Program as typed, for commands in messages."""


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job in its scheduler."""

    name: str
    """State in the scheduler's terms: PENDING, RUNNING, …"""
    reason: str
    """Reason for waiting or for the end. '' if there is none."""
    nodes: str
    is_over: bool
    is_hopeless: bool = False
    """True if the job waits for resources that it can never get, for example more nodes or time than the limits allow."""


class BatchJob(Protocol):
    """Run as a job of a scheduler."""

    @property
    def script(self) -> str:
        """Complete text of the script that is submitted."""
        ...

    @property
    def script_name(self) -> str:
        """Name of the script's file in the run's folder."""
        ...

    @property
    def folder(self) -> Path:
        """Local folder of the run."""
        ...

    def submit(self, script: Path) -> str:
        """Submit the stored script. Return the job's id.

        Raises:
            ClusterError: the scheduler refused it. The message is the scheduler's.
        """
        ...

    def run_in_allocation(self, script: Path) -> int:
        """Run the script in the allocation of this process. Return its exit status."""
        ...

    def state(self, job: str) -> JobState:
        """Return the state of the job with this id."""
        ...

    def cancel(self, job: str) -> None: ...

    def lines(self, job: str) -> Sequence[str] | None:
        """Return the lines of `aiperf status` from the place of the run.

        None if its folder is shared with this machine.
        """
        ...

    def fetch(self, job: str) -> None:
        """Copy the readable files of a finished run into its local folder, if that differs from the run's own folder.

        Raises ClusterError, and NoReport for a run that never began.
        """
        ...

    @property
    def advice(self) -> str:
        """Text with the option to change if a job would wait without end."""
        ...

    @property
    def last_output(self) -> str:
        """Command or path that shows messages about a job that ended before its run began."""
        ...

    @property
    def status_command(self) -> str:
        """Command that shows the state of the run while it runs."""
        ...


class ClusterError(Exception):
    """The scheduler failed or is missing. Contains its message and a remedy."""


class NoReport(ClusterError):
    """A job ended before its run began, so there is nothing to fetch. Contains the scheduler's reasons."""


@dataclass
class ClusterConf:
    """Base class of all kinds of cluster."""

    kind: str = "???"
    """Kind of cluster, set by the choice of the group."""

    def check(self) -> None:
        """Check that the values of the options do not contradict each other.

        Raises:
            ValueError: they do. The message has rule, value and fix.
        """

    def place(self, environment: Mapping[str, str]) -> Place:
        """Return the place of a run, by which the driver starts or finds Ray. `environment`: environment variables."""
        raise NotImplementedError

    def requested_nodes(self) -> NodesAsked:
        """Return the properties of the nodes that are known before the nodes exist."""
        return NodesAsked()

    def requested_resources(self, seconds: float) -> Sequence[tuple[str, str]]:
        """Return rows (name, text) of the resources to request or to wait for. `seconds`: declared time of the run."""
        return [("place", f"+cluster={self.kind}")]

    def workers_text(self) -> str:
        """Return a text on the number of workers."""
        return f"as many as the nodes of +cluster={self.kind} hold"


@dataclass
class NodesConf(ClusterConf):
    """Base class of all kinds of cluster with machines."""

    accelerator: str | None = field(default=None, metadata=form(LINE, "a model or a part of its name, H100"))
    """Model of the nodes' accelerators, or a part of its name: H100. A dry run uses it. A run on another model ends
    before it begins. Default: detected on the nodes."""
    accelerator_memory: str | None = field(default=None, metadata=form(BYTES, BYTES_IN_WORDS))
    """Memory of one accelerator: 80G. A dry run plans with it. A run on accelerators with another memory ends before it
    begins. Default: detected on the nodes."""

    def requested_nodes(self) -> NodesAsked:
        memory = self.accelerator_memory
        known = None if memory is None else bytes_of("cluster.accelerator_memory", memory)
        return NodesAsked(accelerator=self.accelerator, accelerator_bytes=known)


@dataclass
class JoinedConf(NodesConf):
    """Base class of all kinds of cluster whose hosts join this machine through the run's folder, without a scheduler."""

    submit: bool = True
    """false: only print the commands for each host."""

    def shown(self, folder: Path) -> str:
        """Return the text that `submit=false` prints. `folder`: folder of the run."""
        raise NotImplementedError


@dataclass
class SchedulerConf(NodesConf):
    """Base class of all kinds of cluster whose scheduler starts the machines. The driver runs in a job, by the verb drive."""

    submit: bool = True
    """false: only print what would be submitted."""
    follow: bool = True
    """Show the progress of the run until its end. Ctrl-C leaves it running."""

    def job(self, submission: JobSubmission) -> BatchJob:
        """Return the job that starts the machines."""
        raise NotImplementedError

    def is_allocated(self, environment: Mapping[str, str]) -> bool:
        """Return True if this environment is inside an allocation of the scheduler. Then no job is submitted."""
        return False


def place_of(cluster: ClusterConf | None, environment: Mapping[str, str]) -> Place:
    """Return the place of a run. Without a cluster it is this machine."""
    return LocalPlace() if cluster is None else cluster.place(environment)


def bytes_of(option: str, word: str, default_unit: str | None = None) -> int:
    """Return the number of bytes in a text like 80G, in powers of 1024. `default_unit`: unit of a number without one.

    `option`: name of the option, for messages.
    >>> bytes_of("cluster.accelerator_memory", "80G"), bytes_of("cluster.memory_per_node", "512", "M")
    (85899345920, 536870912)

    Raises:
        ValueError: any other text.
    """
    match = re.fullmatch(r"([1-9][0-9]{0,15})([KMGT]?)(?:i?B)?", word, re.IGNORECASE)
    unit = (match and match[2].upper()) or default_unit
    if match is None or unit is None:
        raise ValueError(f"{option} is {BYTES_IN_WORDS}, but found {word!r}: write it so")
    power: int = 1024 ** ("KMGT".index(unit) + 1)
    return int(match[1]) * power
