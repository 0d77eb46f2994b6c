"""Option +cluster=hosts: a run on hosts that are reached by ssh. This machine runs the driver, and trains only if listed."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from cluster.place import (
    AS_IT_IS,
    LINE,
    LONGEST_SECONDS,
    MOST_NODES,
    PORT,
    HeadPlace,
    InvitedPlace,
    JoinedConf,
    NodesAsked,
    form,
    require_shell_lines,
)

REACHED = "aiperf: this host is ready"
"""Line that a host prints if it can join."""
HOST = r"(?:[\w.-]+@)?[A-Za-z0-9_\[][\w.:%\]-]*"
HOSTS = r"[\w.@:%,\[\]-]+"
"""Regular expression of the texts that `expanded` reads."""
HOST_IN_WORDS = "[USER@]HOST, as ssh takes it, or a list of Slurm, n[001-003,007]"
FAULTS = {
    41: "has no such directory (cluster.directory), or not on a file system that both see",
    42: "failed in cluster.setup",
    43: "has no such program (cluster.python)",
    44: "has a Python that cannot load the benchmark: is it set up there (cluster.directory, cluster.python, cluster.setup)?",
    45: "does not see the run's folder: runs= must lie on a file system that all hosts share",
}
"""Meaning of the exit statuses of a host's check."""


@dataclass
class HostsConf(JoinedConf):
    """Hosts reached by ssh without a password.

    The machine where the command is typed runs Ray's head and the driver. It trains only if it is in the list. All
    hosts share the run's folder.
    """

    kind: str = "hosts"
    hosts: list[str] = field(default_factory=list, metadata=form(HOSTS, HOST_IN_WORDS))
    """[USER@]HOST for each host, as ssh takes it, or a name of ssh_config(5). Slurm's lists are expanded: n[001-003,007]."""
    fewest_hosts: int | None = field(default=None, metadata={"least": 1, "most": MOST_NODES})
    """Minimum number of hosts, if others cannot be reached or do not join in time. Default: all hosts."""
    join_seconds: float = field(default=300.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Maximum time for the hosts to join."""
    address: str | None = field(
        default=None,
        metadata=form(r"[A-Za-z0-9][\w.-]*|(?=.*:.*:)[0-9A-Fa-f:.]+(%\w+)?", "a name or an address, 10.0.0.1"),
    )
    """Address of this machine for the hosts. Default: the address of its host name."""
    ssh: list[str] = field(default_factory=list, metadata=form(LINE, "an argument of ssh, -p"))
    """More arguments of ssh, as they are: -p, 2222, -i, KEY, -F, FILE. Host keys are checked as your ssh checks them."""
    connect_seconds: int = field(default=10, metadata={"least": 1, "most": LONGEST_SECONDS})
    """Maximum time for ssh to connect to a host."""
    python: str | None = field(
        default=None, metadata=form(AS_IT_IS, "the path of a program without $ and ~, /opt/venv/bin/python")
    )
    """Python interpreter on the hosts. Default: the path of this one."""
    directory: str | None = field(
        default=None, metadata=form(AS_IT_IS, "the path of a folder without $ and ~, /home/me/aiperf")
    )
    """Working directory on the hosts. Default: the working directory here."""
    setup: list[str] = field(default_factory=list, metadata=form(LINE, "a line of sh, module load cuda"))
    """Lines of sh that run first on each host: module load cuda."""
    again_seconds: float = field(default=600.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Maximum time for reconnections to a lost host, every 10 s. 0: no reconnection."""

    def check(self) -> None:
        super().check()
        if not self.hosts:
            raise ValueError(
                f"cluster.hosts has at least 1 entry, each is {HOST_IN_WORDS}, but found []: write cluster.hosts=[n1,n2]"
            )
        for host in self.names:
            if re.fullmatch(r"[^:\[]+:\d+", host):
                raise ValueError(
                    f"each of cluster.hosts is {HOST_IN_WORDS}, but found {host!r}: write {host.partition(':')[0]}. A port of "
                    "ssh is cluster.ssh=[-p,PORT], and accelerators are chosen in cluster.setup"
                )
            if not re.fullmatch(HOST, host):
                raise ValueError(f"each of cluster.hosts is {HOST_IN_WORDS}, but found {host!r}: correct it")
        names = [host.rpartition("@")[2] for host in self.names]
        if twice := {name for name, count in Counter(names).items() if count > 1}:
            raise ValueError(
                f"each host is named once, since it is one node of the run, but found {sorted(twice)} more than once: "
                "leave one of them"
            )
        if self.fewest_hosts is not None and self.fewest_hosts > len(names):
            raise ValueError(
                f"cluster.fewest_hosts is between 1 and the number of hosts, {len(names)}, but found {self.fewest_hosts}: "
                "lower it, or add hosts"
            )

        self._check_ssh()
        require_shell_lines("cluster.setup", self.setup, "sh")

    def _check_ssh(self) -> None:
        """Check the values of ssh's options: ports, and files of this machine."""
        words = [*self.ssh, ""]
        for word, following in pairwise(words):
            option, value = (word[:2], word[2:] or following) if re.match("-[pFi]", word) else ("", "")
            if match := re.fullmatch(r"(?i)(?:-o ?)?Port[= ](.*)", word):
                option, value = "-p", match[1]
            if option == "-p" and not re.fullmatch(PORT, value):
                raise ValueError(
                    f"a port of ssh is from 1 to 65535, but found {value!r} in cluster.ssh: write cluster.ssh=[-p,PORT]"
                )
            if option in ("-F", "-i") and not Path(value).expanduser().is_file():
                raise ValueError(
                    f"{option} of cluster.ssh names a file of this machine, but found {value!r}: correct the path"
                )

    @property
    def names(self) -> list[str]:
        return [host for word in self.hosts for host in expanded(word)]

    def place(self, environment: Mapping[str, str]) -> InvitedPlace:
        """Return the hosts of the run, with the commands to check and join them. `environment`: not used."""
        return InvitedPlace(
            hosts=tuple(self.names),
            head=HeadPlace(len(self.names), self.fewest_hosts or len(self.names), self.join_seconds, self.address),
            again_seconds=self.again_seconds,
            check_command=self.check_command,
            join_command=self.join_command,
        )

    def requested_nodes(self) -> NodesAsked:
        """Return the number of hosts, and the declared model and memory of their accelerators (None: not declared)."""
        return replace(super().requested_nodes(), nodes=len(self.names))

    def requested_resources(self, seconds: float) -> Sequence[tuple[str, str]]:
        """Return one row (name, text) for the printed plan: the first eight hosts. `seconds`: not used."""
        more = f" and {len(self.names) - 8} more" if len(self.names) > 8 else ""
        hosts = f"{', '.join(self.names[:8])}{more}, by ssh; head and driver on the machine where this is typed"
        return [("hosts", hosts)]

    def check_command(self, host: str, folder: Path) -> list[str]:
        """The ssh command by which `host` shows that it can join: REACHED and status 0. `fault_of` explains other statuses."""
        python, run = self._python, shlex.quote(str(folder))
        return self._by_ssh(
            host,
            f"cd {self._directory} || exit 41",
            *(f"{line} || exit 42" for line in self.setup),
            f"command -v {python} > /dev/null || exit 43",
            f"{python} -c 'import aiperf.drive.ray.cluster.join_node, aiperf.train.ranks.group' || exit 44",
            f"test -d {run} || exit 45",
            f"echo {shlex.quote(REACHED)}",
        )

    def join_command(self, host: str, folder: Path) -> list[str]:
        """Return the ssh command, as a list of words, by which `host` joins the run in `folder` until the end of the run."""
        run, patience = shlex.quote(str(folder)), f"{self.join_seconds:g}"
        return self._by_ssh(
            host,
            f"cd {self._directory} || exit",
            *(f"{line} || exit" for line in self.setup),
            f"exec {self._python} -m aiperf join {run} --tied --patience {patience}",
        )

    def _by_ssh(self, host: str, *script: str) -> list[str]:
        """Return the command line that runs lines of sh(1) on a host."""
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
            f"exec sh -c {shlex.quote(chr(10).join(script))}",
        ]

    @property
    def _python(self) -> str:
        return shlex.quote(self.python or sys.executable)

    @property
    def _directory(self) -> str:
        return shlex.quote(self.directory or str(Path.cwd()))

    def shown(self, folder: Path) -> str:
        """Return the commands to check and join all hosts as text, one per line, for copying. `folder`: folder of the run."""
        return "\n".join(
            [
                "# On this machine, with Ray's head and the driver, first of all for each host (what is missing there?):",
                *(shlex.join(self.check_command(host, folder)) for host in self.names),
                "# then, until the run is over, its standard input held open and what it says kept in the run's logs/:",
                *(shlex.join(self.join_command(host, folder)) for host in self.names),
            ]
        )


def expanded(listed: str) -> list[str]:
    """Return the hosts of a list in Slurm's syntax.

    >>> expanded("n[001-003,007]"), expanded("me@r[1-2]n3,x"), expanded("[::1]")
    (['n001', 'n002', 'n003', 'n007'], ['me@r1n3', 'me@r2n3', 'x'], ['[::1]'])

    Raises:
        ValueError: a range is not FIRST-LAST, or there are more than MOST_NODES hosts.
    """
    hosts: list[str] = []
    for each in re.split(r",(?![^\[]*\])", listed):
        brackets = re.search(r"\[([\d,-]+)\]", each)
        if brackets is None:
            hosts.append(each)
            continue
        for part in brackets[1].split(","):
            ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
            first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
            if ends is None or not first <= last < first + MOST_NODES:
                raise ValueError(
                    f"a range of hosts is FIRST-LAST, with at most {MOST_NODES} hosts, but found {part!r} in {listed!r}: write "
                    "the hosts out, as `scontrol show hostnames` does"
                )
            for number in range(first, last + 1):
                hosts += expanded(f"{each[: brackets.start()]}{number:0{len(ends[1])}}{each[brackets.end() :]}")
                if len(hosts) > MOST_NODES:
                    raise ValueError(f"a run has at most {MOST_NODES} hosts, but found more in {listed!r}: name fewer")
    return hosts


def fault_of(status: int, errors: Sequence[str]) -> str:
    own = [line.strip() for line in errors if line.strip()]
    last_lines = " | ".join(own[-3:])
    if status == 255:  # ssh's own
        return f"ssh failed: {last_lines or 'without a message'}"
    meaning = FAULTS.get(status, f"ended with status {status}")
    return f"it {meaning}{f' ({last_lines})' if last_lines else ''}"
