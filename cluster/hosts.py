"""Hosts reached by ssh: `+cluster=hosts 'cluster.hosts=[n1,n2]'`.

No scheduler is needed, and nothing is installed on them.

The machine where the command is typed is the head. It runs Ray's head and the driver, and trains only if it is in the
list. The driver connects to each other host by one ssh process with the user's keys, and the host joins through the
run's folder. The commands are values made here. `aiperf.drive.ray.cluster.invited_hosts` runs them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cluster.place import (
    LINE,
    LONGEST_SECONDS,
    MOST_NODES,
    WORD,
    HeadPlace,
    InvitedPlace,
    NodesAsked,
    NodesConf,
    Place,
    form,
)

REACHED = "aiperf: this host is ready"
"""Line that a host prints if it can join."""
HOST = r"(?P<name>(?:[\w.-]+@)?[A-Za-z0-9_\[][\w.:%\]-]*?)(?::(?P<slots>[1-9]\d*))?"
HOST_IN_WORDS = "[USER@]HOST, or [USER@]HOST:SLOTS, as ssh takes it"
FAULTS = {
    41: "has no such directory (cluster.directory), or not on a file system that both see",
    42: "failed in cluster.setup",
    43: "has no such program (cluster.python)",
    44: "has a Python that cannot load the benchmark: is it set up there (cluster.directory, cluster.python, cluster.setup)?",
    45: "does not see the run's folder: runs= must lie on a file system that all hosts share",
}
"""Meaning of the exit statuses of a host's check."""


@dataclass(frozen=True, slots=True)
class RemoteHost:
    """One host of the run."""

    name: str
    """[USER@]HOST as ssh takes it, or a name of ssh_config(5)."""
    slots: int | None = None
    """Slots from a hostfile. See `HostsConf.hostfile`."""

    @property
    def host(self) -> str:
        """Name without the user."""
        return self.name.rpartition("@")[2]


@dataclass
class HostsConf(NodesConf):
    """Hosts reached by ssh without a password.

    The machine where the command is typed runs Ray's head and the driver. It trains only if it is in the list. All
    hosts share the run's folder.
    """

    kind: str = "hosts"
    hosts: list[str] = field(default_factory=list, metadata=form(HOST, HOST_IN_WORDS))
    """[USER@]HOST for each host, as ssh takes it. HOST:SLOTS as in horovodrun -H (see hostfile)."""
    hostfile: str | None = None
    """File of mpirun or horovodrun instead, with one line HOST slots=N per host. Slots are not used, and a warning is
    printed: a worker has all accelerators of a node, or accelerators_per_worker."""
    fewest_hosts: int | None = field(default=None, metadata={"least": 1, "most": MOST_NODES})
    """Minimum number of hosts, if others cannot be reached or do not join in time. Default: all hosts."""
    join_seconds: float = field(default=300.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Maximum time for the hosts to join."""
    address: str | None = field(default=None, metadata=form(WORD, "a name or an address, 10.0.0.1"))
    """Address of this machine for the hosts. Default: the address of its host name."""
    ssh: list[str] = field(default_factory=list, metadata=form(LINE, "an argument of ssh, -p"))
    """More arguments of ssh, as they are: -p, 2222, -i, KEY, -F, FILE. Host keys are checked as your ssh checks them."""
    connect_seconds: int = field(default=10, metadata={"least": 1, "most": LONGEST_SECONDS})
    """Maximum time for ssh to connect to a host."""
    python: str | None = field(default=None, metadata=form(LINE, "the path of a program, /opt/venv/bin/python"))
    """Python interpreter on the hosts. Default: the path of this one."""
    directory: str | None = field(default=None, metadata=form(LINE, "the path of a folder, /home/me/aiperf"))
    """Working directory on the hosts. Default: the working directory here."""
    setup: list[str] = field(default_factory=list, metadata=form(LINE, "a line of sh, module load cuda"))
    """Lines of sh that run first on each host: module load cuda."""
    again_seconds: float = field(default=600.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Maximum time for reconnections to a lost host, at growing intervals. 0: no reconnection."""
    submit: bool = True
    """false: only print the commands for each host."""

    def check(self) -> None:
        super().check()
        listed = self.listed()
        if self.fewest_hosts is not None and self.fewest_hosts > len(listed):
            raise ValueError(
                f"cluster.fewest_hosts is between 1 and the number of hosts, {len(listed)}, but found {self.fewest_hosts}"
            )

    def listed(self) -> tuple[RemoteHost, ...]:
        """Return all hosts in order. Raises ValueError for an empty list, a repeated host or an invalid name."""
        if bool(self.hosts) == (self.hostfile is not None):
            raise ValueError(
                "+cluster=hosts names its hosts once, by cluster.hosts=[n1,n2] or by cluster.hostfile=PATH, but found "
                f"{'both' if self.hosts else 'neither'}"
            )
        if self.hostfile is None:
            hosts = [_host(word) for word in self.hosts]
        else:
            try:
                text = Path(self.hostfile).read_text()
            except OSError as error:
                raise ValueError(
                    f"cluster.hostfile names a file of hosts, but found {error.strerror}: {self.hostfile!r}"
                ) from error
            hosts = of_hostfile(text, self.hostfile)
        if not hosts:
            raise ValueError(f"a file of hosts has a line HOST [slots=N] for each, but found none in {self.hostfile!r}")
        twice = {one.host for one in hosts if [other.host for other in hosts].count(one.host) > 1}
        if twice:
            raise ValueError(
                f"each host is named once, since it is one node of the run, but found {sorted(twice)} more than once"
            )
        return tuple(hosts)

    def place(self, environment: Mapping[str, str]) -> Place:
        listed = self.listed()
        return InvitedPlace(
            hosts=tuple(one.name for one in listed),
            head=HeadPlace(len(listed), self.fewest_hosts or len(listed), self.join_seconds, self.address),
            again_seconds=self.again_seconds,
            reached=self,
        )

    def requested_nodes(self) -> NodesAsked:
        return replace(super().requested_nodes(), nodes=len(self.listed()))

    def requested_resources(self, seconds: float) -> Sequence[tuple[str, str]]:
        names = [one.name for one in self.listed()]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return [("hosts", f"{', '.join(names[:8])}{more}, by ssh; head and driver on the machine where this is typed")]

    def words(self, host: str, script: str) -> list[str]:
        return [
            "ssh",
            *self.ssh,  # first: ssh keeps the first value that it is given
            "-T",
            *("-o", "BatchMode=yes"),
            *("-o", f"ConnectTimeout={self.connect_seconds}"),
            # a host that is cut off is given up within a minute, at both ends
            *("-o", "ServerAliveInterval=15"),
            *("-o", "ServerAliveCountMax=3"),
            "--",
            host,
            f"exec sh -c {shlex.quote(script)}",
        ]

    def looking(self, folder: Path, python: str, directory: Path) -> str:
        """Return the script that checks before the run begins whether a host can join."""
        run, interpreter, there = self._quoted(folder, python, directory)
        return "\n".join(
            [
                f"cd {there} || exit 41",
                *(f"{line} || exit 42" for line in self.setup),
                f"command -v {interpreter} > /dev/null || exit 43",
                f"{interpreter} -c 'import aiperf.drive.ray.cluster.join_node, aiperf.train.ranks.group' || exit 44",
                f"test -d {run} || exit 45",
                f"echo {shlex.quote(REACHED)}",
            ]
        )

    def joining(self, folder: Path, python: str, directory: Path) -> str:
        run, interpreter, there = self._quoted(folder, python, directory)
        setup = "".join(f"{line} || exit\n" for line in self.setup)
        return f"cd {there} || exit\n{setup}exec {interpreter} -m aiperf join {run} --tied --patience {self.join_seconds:g}"

    def _quoted(self, folder: Path, python: str, directory: Path) -> tuple[str, str, str]:
        return (
            shlex.quote(str(folder)),
            shlex.quote(self.python or python),
            shlex.quote(self.directory or str(directory)),
        )

    @property
    def is_joined(self) -> bool:
        return True

    @property
    def wants_submission(self) -> bool:
        return self.submit

    def shown(self, folder: Path, python: str, directory: Path) -> str:
        """See `ClusterConf.shown`. The commands can be typed as printed."""
        lines = [
            "# On this machine, with Ray's head and the driver, first of all for each host (what is missing there?):",
            *(shlex.join(self.words(one.name, self.looking(folder, python, directory))) for one in self.listed()),
            "# then, until the run is over, its standard input held open and what it says kept in the run's logs/:",
            *(shlex.join(self.words(one.name, self.joining(folder, python, directory))) for one in self.listed()),
        ]
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> list[str]:
        with_slots = [one for one in self.listed() if one.slots is not None]
        if not with_slots:
            return []
        named = ", ".join(f"{one.name} {one.slots}" for one in with_slots[:4]) + (", …" if len(with_slots) > 4 else "")
        return [
            f"slots are not honoured ({named}): a worker has all accelerators of a node, or accelerators_per_worker of them; "
            "on nodes without accelerators, trainer.ranks. To leave some out, hide them: "
            "'cluster.setup=[\"export CUDA_VISIBLE_DEVICES=0,1\"]'"
        ]


def of_hostfile(text: str, path: str) -> list[RemoteHost]:
    """Return the hosts of a file as mpirun(1) and horovodrun read it.

    One line HOST [slots=N] [max_slots=N] per host, with # before a comment.
    """
    hosts: list[RemoteHost] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host, slots = _host(words[0], f"line {number} of {path!r}"), None
        for word in words[1:]:
            name, _, value = word.partition("=")
            if name not in ("slots", "max_slots", "max-slots") or not re.fullmatch(r"[1-9]\d*", value):
                raise ValueError(
                    f"a line of a file of hosts is HOST [slots=N], but found {word!r} in line {number} of {path!r}"
                )
            slots = int(value) if name == "slots" else slots
        hosts.append(RemoteHost(host.name, slots if slots is not None else host.slots))
    return hosts


def _host(word: str, where: str = "cluster.hosts") -> RemoteHost:
    match = re.fullmatch(HOST, word)
    if match is None:
        raise ValueError(f"a host is {HOST_IN_WORDS}, but found {word!r} in {where}")
    return RemoteHost(match["name"], None if match["slots"] is None else int(match["slots"]))


def fault_of(status: int, errors: Sequence[str]) -> str:
    """Return the fault of a host from the exit status and the standard error of its check."""
    own = [line.strip() for line in errors if line.strip()]
    words = " | ".join(own[-3:])
    if status == 255:  # ssh's own
        return f"ssh failed: {words or 'without a message'}"
    meaning = FAULTS.get(status, f"ended with status {status}")
    return f"it {meaning}{f' ({words})' if words else ''}"
