"""Interface of all kinds of cluster: classes of the option +cluster=KIND and the values that they return.

A kind is a configuration class in its own file, listed in `CLUSTERS` of `aiperf/config.py`. It returns values (`Place`,
`BatchJob`) that `aiperf.drive` carries out. No other code depends on the kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiperf.programs import ProgramFailed, ask

LONGEST_SECONDS = 366 * 86400
"""Maximum of any waiting time."""
MOST_NODES = 1_000_000
"""Maximum number of hosts, nodes or pods: six times the 158,976 nodes of Fugaku."""
MOST_OF_A_NODE = 65_536
"""Maximum number of processors, or of accelerators, of one node."""
LINE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]+"
"""Regular expression of a text of one line that is not empty, without control characters."""
AS_IT_IS = rf"(?!~|.*\$){LINE}"
"""Regular expression of a path that no shell expands."""
BYTES = r"(?i:[1-9][0-9]{0,15}[KMGT](i?B)?)"
"""Regular expression of the texts that `bytes_of` reads."""
BYTES_IN_WORDS = "a number with K, M, G or T, of 1024 each: 80G"
WORD = r"(?!-)[^\s\x00]*[^\s\x00,]"
"""Regular expression of one word, which is no option and does not end with a comma."""
PORT = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
"""Regular expression of a port, 1 to 65535."""
HEAD_FILE = "ray-head.json"
"""File in the run's folder with address and token of the run's own Ray. Each driver replaces it."""
HEAD_LOST = 3
"""Exit status of `python -m aiperf join` if the run's head has ended without ending its run."""


def form(pattern: str, words: str) -> dict[str, tuple[str, str]]:
    """Return the metadata of a dataclass field for an option: its text, or each text of a list, must match `pattern`."""
    return {"form": (pattern, words)}


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """Ray to be started on this machine alone."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """No Ray and no machine: a simulation under a virtual clock."""


@dataclass(frozen=True, slots=True)
class HeadPlace:
    """Ray's head to be started next to the driver. Each other node joins it by `python -m aiperf join RUN`."""

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
    """Ray's head to be started next to the driver, which connects to each of these hosts by ssh."""

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
    """Nodes to request from Ray's autoscaler, independent of waiting work."""

    nodes: int
    each: Mapping[str, float]
    """Ray resources of a node, all used by one worker: {"CPU": 32, "GPU": 8}."""


@dataclass(frozen=True, slots=True)
class Existing:
    """Existing Ray cluster to join. The run does not end it."""

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
    """Nodes that a run requests, before they exist. A value is None if it is known only from the nodes."""

    nodes: int | None = None
    """Number of nodes with which a run begins."""
    most_nodes: int | None = None
    """Maximum number of nodes. None if it equals `nodes`."""
    accelerators: int | None = None
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
    """Run to submit to a scheduler: its folder, options, duration and program."""

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
    name: str
    """State in the scheduler's terms: PENDING, RUNNING, …"""
    reason: str
    """Reason for waiting or for the end. '' if there is none."""
    nodes: str
    is_over: bool
    is_hopeless: bool = False
    """True if the job waits for resources that it can never get, for example more nodes or time than the limits allow."""


class BatchJob(Protocol):
    """Interface of a run as a job of a scheduler (Slurm, Kubernetes)."""

    @property
    def script(self) -> str:
        """Complete text of the script or manifests that are submitted."""

    @property
    def script_name(self) -> str:
        """Name of the file for this text in the run's folder."""

    @property
    def folder(self) -> Path:
        """Folder of the run on this machine."""

    def submit(self, script: Path) -> str:
        """Submit the job to the scheduler. Return the job's id. `script`: file with the text of `script`.

        Raises:
            ClusterError: the scheduler is missing or refused the job. The message is the scheduler's.
        """

    def state(self, job: str) -> JobState:
        """Return the current state of the job with the id `job`.

        Raises:
            UnknownJob: the scheduler does not know the job, or no longer.
            ClusterError: the scheduler is missing, refuses or does not answer.
        """

    def cancel(self, job: str) -> None:
        """End the job with the id `job`.

        Raises:
            ClusterError: the scheduler is missing, refuses or does not answer.
        """

    @property
    def writes_here(self) -> bool:
        """True if the job writes into the run's folder on this machine, which must exist before it is submitted."""

    def lines(self, job: str) -> Sequence[str]:
        """Return a few lines about the progress of the run on the cluster. Empty if there is no answer. `job`: id of the job.

        Raises:
            ClusterError: the scheduler refuses or does not answer.
        """

    def fetch(self, job: str) -> None:
        """Copy journal and report of an ended run into its local folder. Nothing if this folder is shared.

        `job`: id of the job.

        Raises:
            NoReport: the job ended before its run began.
            ClusterError: the copy failed.
        """

    @property
    def advice(self) -> str:
        """Advice with the options to change, for a message about a job that can never start."""

    @property
    def last_output(self) -> str:
        """Shell command or path that shows the last output of a job that ended before its run began."""

    @property
    def status_command(self) -> str:
        """Shell command that shows the state of the run in progress."""


class ClusterError(Exception):
    """Failure or refusal of a scheduler, or a missing scheduler. Contains its message and a remedy."""


class UnknownJob(ClusterError):
    """Job that its scheduler does not know: it ended some minutes ago, or another scheduler has it."""


class NoReport(ClusterError):
    """Job that ended before its run began. There is nothing to fetch. Contains the scheduler's reasons."""


@dataclass
class ClusterConf:
    """Base class of the options of all kinds of cluster."""

    kind: str = "???"
    """Kind of cluster, set by the choice of the group."""

    def check(self) -> None:
        """Check that the values of the options do not contradict each other. The base class checks nothing.

        Raises:
            ValueError: they do. The message has rule, value and fix.
        """

    def check_run(self, seconds: float, data: str | None) -> None:
        """Check the options against a run's length and its folder of data (None: it reads no files). Raises as `check`."""

    def place(self, environment: Mapping[str, str]) -> Place:
        """Return the Ray that the driver must start or join. `environment`: environment variables of this process.

        Raises:
            ClusterError: the allocation of the scheduler contradicts the options.
        """
        raise NotImplementedError

    def requested_nodes(self) -> NodesAsked:
        """Return number and resources of the requested nodes. Values that are known only from the nodes are None."""
        return NodesAsked()

    def requested_resources(self, seconds: float) -> Sequence[tuple[str, str]]:
        """Return rows (name, text) for the printed plan: resources to request or to wait for.

        `seconds`: declared duration of the run.
        """
        return [("place", f"+cluster={self.kind}")]

    def workers_text(self) -> str:
        """Return the number of workers as text, for the printed plan. It may be unknown before the run."""
        return f"as many as the nodes of +cluster={self.kind} hold"


@dataclass
class NodesConf(ClusterConf):
    """Base class of the options of all kinds of cluster with real machines."""

    accelerator: str | None = field(default=None, metadata=form(LINE, "a model or a part of its name, H100"))
    """Model of the nodes' accelerators, or a part of its name: H100. A dry run uses it. A run on another model ends
    before it begins. Default: detected on the nodes."""
    accelerator_memory: str | None = field(default=None, metadata=form(BYTES, BYTES_IN_WORDS))
    """Memory of one accelerator: 80G. A dry run plans with it. A run on accelerators with another memory ends before it
    begins. Default: detected on the nodes."""

    def requested_nodes(self) -> NodesAsked:
        """Return the declared model and memory of the accelerators. All other values are None.

        Raises:
            ValueError: cluster.accelerator_memory is not a number with a unit.
        """
        memory = self.accelerator_memory
        known = None if memory is None else bytes_of("cluster.accelerator_memory", memory)
        return NodesAsked(accelerator=self.accelerator, accelerator_bytes=known)


@dataclass
class JoinedConf(NodesConf):
    """Base class of the options of clusters without a scheduler: hosts join this machine through the run's folder."""

    submit: bool = True
    """false: only print the commands for each host."""

    def shown(self, folder: Path) -> str:
        """Return the text that cluster.submit=false prints: the commands for each host. `folder`: folder of the run."""
        raise NotImplementedError


@dataclass
class SchedulerConf(NodesConf):
    """Base class of the options of clusters with a scheduler that starts the machines. The driver runs in a job."""

    submit: bool = True
    """false: only print what would be submitted."""
    follow: bool = True
    """Show the progress of the run until its end. Ctrl-C leaves it running."""

    def job(self, submission: JobSubmission) -> BatchJob:
        """Return the run as a job of the scheduler. Nothing is submitted yet."""
        raise NotImplementedError

    def is_allocated(self, environment: Mapping[str, str]) -> bool:
        """Return True if the environment belongs to an allocation of the scheduler, where the run then takes place."""
        return False


def place_of(cluster: ClusterConf | None, environment: Mapping[str, str]) -> Place:
    """Return the Ray that the driver must start or join."""
    return LocalPlace() if cluster is None else cluster.place(environment)


def require_shell_lines(option: str, lines: Sequence[str], shell: str) -> None:
    """Raise ValueError for the first line that is no complete command of the shell, which reads it without executing it."""
    for line in lines:
        try:
            answer = ask((shell, "-n", "-c", line), seconds=10.0)
        except ProgramFailed:  # the nodes have the shell
            return
        if answer.status:
            raise ValueError(
                f"each of {option} is a whole command of {shell}, but found {line!r} ({answer.words}): correct it"
            )


def bytes_of(option: str, text: str, default_unit: str | None = None) -> int:
    """Return the number of bytes in a text like 80G. K, M, G and T are powers of 1024.

    `option`: name of the option, for messages. `text`: the value. `default_unit`: unit of a number without one. None: a unit
    is required.

    >>> bytes_of("cluster.accelerator_memory", "80G"), bytes_of("cluster.memory_per_node", "512", "M")
    (85899345920, 536870912)

    Raises:
        ValueError: any other text.
    """
    match = re.fullmatch(r"([1-9][0-9]{0,15})([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    unit = (match and match[2].upper()) or default_unit
    if match is None or unit is None:
        raise ValueError(f"{option} is {BYTES_IN_WORDS}, but found {text!r}: write it so")
    power: int = 1024 ** ("KMGT".index(unit) + 1)
    return int(match[1]) * power
