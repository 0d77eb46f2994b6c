"""Hosts that join the driver's Ray cluster over ssh. Each leaves when the driver's end closes the standard input of its ssh."""

from __future__ import annotations

import ipaddress
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiperf.drive.ray.cluster.head import head_ray, own_address
from aiperf.errors import HostNotReached, NoWorkers
from aiperf.own_files import append_own, make_own_folder
from aiperf.programs import ProgramFailed, ask
from cluster.hosts import REACHED, fault_of
from cluster.place import InvitedPlace

LOGS = "logs"
"""Subfolder of the run for the output of hosts."""
AT_ONCE = 32
"""Maximum number of hosts that are checked at the same time."""
LOOK_SECONDS = 180.0
"""Limit of a host's check. It imports torch and Ray from a file system that many hosts may be reading."""
STEADY_SECONDS = 60.0
"""A connection that lasted this long was steady."""
PAUSE_SECONDS = 10.0
"""Pause before a lost host is connected again."""
WATCH_SECONDS = 0.5
END_SECONDS = 40.0
"""Maximum time for the hosts to leave at the end of the run."""


@contextmanager
def invited_ray(folder: Path, place: InvitedPlace) -> Iterator[None]:
    """Check hosts over ssh, connect them and start Ray's head here for a `with` block. End all of them after it."""
    others = [host for host in place.hosts if not is_this_host(host)]
    trains = len(others) < len(place.hosts)
    away = len(place.hosts) - place.head.fewest_nodes
    reached = _looked_at(folder, place, others, away)
    head = replace(
        place.head, nodes=len(reached) + 1, fewest_nodes=max(1, len(others) - away + 1), trains=trains or not others
    )
    with Invitations(folder, place, others).kept() as invitations:
        try:
            with head_ray(folder, head):
                yield
        except NoWorkers as error:
            raise NoWorkers(f"{error}{invitations.last_output()}") from error


def is_this_host(name: str) -> bool:
    """True for this host's name, its address, or a loopback address. False for another interface, or no IPv4 address."""
    host = name.rpartition("@")[2]
    if host in ("localhost", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return False  # a name that ssh's configuration may know
    return ipaddress.ip_address(address).is_loopback or address == own_address()


def _looked_at(folder: Path, place: InvitedPlace, hosts: Sequence[str], away: int) -> list[str]:
    """Return the hosts that can join. At most `away` may be missing."""
    if not hosts:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as aside:
        faults = dict(zip(hosts, aside.map(lambda host: _look(place.check_command(host, folder)), hosts), strict=True))
    refused = {host: fault for host, fault in faults.items() if fault is not None}
    if not refused:
        return list(hosts)
    faults_of_hosts = "\n".join(f"  {host}: {fault}" for host, fault in refused.items())
    if len(refused) > away:
        host, fault = next(iter(refused.items()))
        remedy = (
            f"Try `ssh -o BatchMode=yes {host} true` in a terminal, with the arguments of cluster.ssh"
            if fault.startswith("ssh")
            else "To see the commands that are run there: cluster.submit=false"
        )
        raise HostNotReached(
            f"all hosts must be reached by ssh without a password, and be able to run the benchmark, but {len(refused)} of "
            f"{len(hosts)} could not join:\n{faults_of_hosts}\n{remedy}. To begin without some of them: cluster.fewest_hosts"
        )
    print(f"{len(refused)} of {len(hosts)} hosts could not join, and the run begins without them:\n{faults_of_hosts}")
    return [host for host in hosts if host not in refused]  # the others are reached for again meanwhile


def _look(words: Sequence[str]) -> str | None:
    try:
        done = ask(words, seconds=LOOK_SECONDS)
    except ProgramFailed as error:
        return str(error)
    if done.status == 0 and REACHED in done.output:
        return None
    return fault_of(done.status, done.errors.splitlines())


@dataclass(frozen=True, slots=True)
class Invitations:
    """ssh connections to the hosts of a run. A thread per host connects it, and connects it again after a loss."""

    folder: Path
    place: InvitedPlace
    hosts: Sequence[str]
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def kept(self) -> Iterator[Invitations]:
        """Connect all hosts over ssh for a `with` block, and reconnect lost ones. End all connections after it."""
        if not self.hosts:
            yield self
            return
        make_own_folder(self.folder / LOGS)
        with ThreadPoolExecutor(len(self.hosts), "hosts") as threads:
            kept = [threads.submit(self._keep, host) for host in self.hosts]
            try:
                yield self
            finally:
                self._over.set()
        for connection in kept:
            connection.result()

    def last_output(self) -> str:
        """Return the last line of each host's output with the path of its log file, for the text of an error."""
        lines_of_hosts = []
        for host in self.hosts:
            lines = [line for line in self._log(host).read_text(errors="replace").splitlines() if line.strip()]
            lines_of_hosts.append(f"\n  {host}: {lines[-1] if lines else 'nothing'} ({self._log(host)})")
        return "".join(lines_of_hosts)

    def _log(self, host: str) -> Path:
        return self.folder / LOGS / f"{host}.log"

    def _keep(self, host: str) -> None:
        """Connect to a host, again after each loss, until the end of the context or until the host is given up."""
        steady = time.monotonic()
        while True:
            began = time.monotonic()
            process = self._begun(host)
            while process.poll() is None and not self._over.wait(WATCH_SECONDS):
                pass
            _end(process)
            now = time.monotonic()
            if self._over.is_set():
                return
            steady = now if now - began >= STEADY_SECONDS else steady
            is_given_up = now + PAUSE_SECONDS - steady > self.place.again_seconds
            then = "is given up" if is_given_up else f"again in {PAUSE_SECONDS:.0f} s"
            self._note(host, f"ended with status {process.returncode}; {then}")
            if is_given_up or self._over.wait(PAUSE_SECONDS):
                return

    def _begun(self, host: str) -> subprocess.Popen[bytes]:
        self._note(host, "reached for")
        with append_own(self._log(host)) as log:
            return subprocess.Popen(
                self.place.join_command(host, self.folder),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is the driver's: it has the hosts report first
            )

    def _note(self, host: str, what: str) -> None:
        with append_own(self._log(host)) as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} aiperf: {host} {what}\n".encode())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a connection. The host leaves when its standard input closes, or is killed after END_SECONDS."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
