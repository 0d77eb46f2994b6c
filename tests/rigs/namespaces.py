"""Hosts on this machine, each with its own network, host name, processes and temporary folder, and runs on them."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, read

PROGRAMS = ("ip", "nsenter", "setpriv", "unshare")
REPOSITORY = Path(__file__).parent.parent.parent

# The host's first process is its init. Other processes enter its namespaces, and end with it
HOST = """
set -e
hostname {name}
mount --make-rprivate /
mount --bind {folder}/hosts /etc/hosts
mkdir -p /run/{name}.shared /run/{name}.product
mount --bind {folder} /run/{name}.shared
mount --bind {repository} /run/{name}.product
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p {folder} {repository}
mount --bind /run/{name}.shared {folder}
mount --bind /run/{name}.product {repository}
echo up > {folder}/{name}.up
exec {init}
"""


def missing(*programs: str) -> str | None:
    """Return the reason why hosts cannot be made here, also for `programs`. None if they can."""
    absent = [program for program in (*PROGRAMS, *programs) if shutil.which(program) is None]
    if sys.platform != "linux" or absent:
        return f"hosts of their own need Linux and {', '.join(absent)}"
    if os.geteuid() != 0:
        return "hosts of their own need root, for namespaces"
    return None


class HostsRig:
    """Use `hosts(folder, count)`."""

    def __init__(self, folder: Path, count: int, *, init: str = "sleep infinity") -> None:
        """`folder`: shared by all hosts.

        `init`: shell command of each host's first process, with `{name}` for its name.
        """
        self.folder = folder
        # of this rig alone: what another of the same process had may take the kernel a moment to remove
        mark = f"{secrets.randbelow(100_000):05}"
        self._mark = mark
        self.subnet = f"10.{40 + secrets.randbelow(60)}.{secrets.randbelow(250)}"
        self.bridge = f"asb{mark}"
        self.names = [f"n{mark}x{number}" for number in range(1, count + 1)]
        self.address = {name: f"{self.subnet}.{number}" for number, name in enumerate(self.names, start=1)}
        self.here = f"{self.subnet}.254"
        """This machine's own address on the bridge."""
        self._init = init
        self._hosts: dict[str, subprocess.Popen[bytes]] = {}

    def up(self, environment: Mapping[str, str] | None = None) -> None:
        """The network, then every host."""
        known = {"localhost": "127.0.0.1", os.uname().nodename: self.here, **self.address}
        (self.folder / "hosts").write_text("".join(f"{where} {name}\n" for name, where in known.items()))
        self._network()
        for name in self.names:
            self.on(name, environment)

    def down(self) -> None:
        """Leaves nothing."""
        for name in list(self._hosts):
            self.off(name)
        for name in self.names:
            subprocess.run(["ip", "link", "del", self._link(name)], stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self.bridge], stderr=subprocess.DEVNULL)

    def on(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Boot the host. Return when processes can be started on it."""
        up = self.folder / f"{name}.up"
        up.unlink(missing_ok=True)
        # ip netns exec would mount another /sys, in which no control groups are found
        inside = [
            "setpriv",
            "--pdeathsig=KILL",  # hosts end with the tests, however those end
            "nsenter",
            f"--net=/run/netns/{name}",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
        ]
        folder, repository = (shlex.quote(str(path)) for path in (self.folder, REPOSITORY))
        script = HOST.format(name=name, folder=folder, repository=repository, init=self._init.replace("{name}", name))
        with (self.folder / f"{name}.out").open("ab") as out:
            self._hosts[name] = subprocess.Popen(
                [*inside, "--mount-proc", "bash", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
            )
        while not up.exists():
            assert self._hosts[name].poll() is None, (self.folder / f"{name}.out").read_text()

    def off(self, name: str) -> None:
        """As if the power had failed: all of the host's processes end at once."""
        host = self._hosts.pop(name)
        host.kill()
        host.wait()

    def cut(self, name: str) -> None:
        """Take the host's link down. Its processes continue."""
        subprocess.run(["ip", "link", "set", self._link(name), "down"], check=True)

    def join(self, name: str) -> None:
        """The host's link is up again."""
        subprocess.run(["ip", "link", "set", self._link(name), "up"], check=True)

    def start(
        self, name: str, *words: str, output: Path, directory: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process on that host. It can be signalled by its pid on this machine."""
        with output.open("ab") as out:
            return subprocess.Popen(
                [*self.entering(name), f"--wd={directory}", "--", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    def entering(self, name: str) -> Sequence[str]:
        """The command that runs what follows it on that host."""
        pid = self.init_of(name)
        return ["nsenter", f"--target={pid}", "--mount", "--uts", "--net", "--pid"]

    def init_of(self, name: str) -> int:
        """The host's first process, by the pid that this machine sees: a child of unshare."""
        unshare = self._hosts[name].pid
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        return int(children[0])

    def _link(self, name: str) -> str:
        return f"as{self._mark}n{self.names.index(name)}"

    def _network(self) -> None:
        def do(*words: str) -> None:
            subprocess.run(["ip", *words], check=True)

        do("link", "add", self.bridge, "type", "bridge")
        do("addr", "add", f"{self.here}/24", "dev", self.bridge)
        do("link", "set", self.bridge, "up")
        for name, where in self.address.items():
            do("netns", "add", name)
            do("link", "add", self._link(name), "type", "veth", "peer", "name", "eth0", "netns", name)
            do("link", "set", self._link(name), "master", self.bridge, "up")
            do("-n", name, "addr", "add", f"{where}/24", "dev", "eth0")
            do("-n", name, "link", "set", "eth0", "up")
            do("-n", name, "link", "set", "lo", "up")


@contextmanager
def hosts(folder: Path, count: int, *, init: str = "sleep infinity") -> Iterator[HostsRig]:
    """Create `count` hosts that share `folder`."""
    rig = HostsRig(folder, count, init=init)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()


def begin(rig: HostsRig, folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    """Start `python -m aiperf WORDS` on a host in the run's folder, with output in NAME.log there."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "AIPERF_"))},
        "PYTHONPATH": str(REPOSITORY),
    }
    return rig.start(
        name,
        sys.executable,
        "-m",
        "aiperf",
        *words,
        output=folder / f"{name}.log",
        directory=folder,
        environment=environment,
    )


def until(
    folder: Path,
    happened: Callable[[list[AnyEvent]], bool],
    what: str,
    seconds: float,
    meanwhile: Callable[[], None],
    logs: Callable[[], str],
) -> list[AnyEvent]:
    """Wait until the journal's events fulfil the condition, and return them.

    `meanwhile` is called before each poll. Fails after `seconds`, with `logs`.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        meanwhile()
        is_begun = (folder / NAME).exists() and (folder / NAME).stat().st_size > 0
        if is_begun and happened(events := list(read(folder))):
            return events
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {seconds:.0f} s\n{logs()}")


def processes_on(rig: HostsRig, name: str) -> list[int]:
    """Return the processes of a host, without its first one and ended ones."""
    init = rig.init_of(name)
    space = Path(f"/proc/{init}/ns/pid").readlink()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/pid").readlink() == space and (process / "stat").read_text().split(") ")[1][0] != "Z":
                found.append(int(process.name))
        except OSError:
            continue  # it has ended
    return [pid for pid in found if pid != init]
