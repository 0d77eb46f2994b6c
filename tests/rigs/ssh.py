"""Real hosts reached by ssh on this machine. Each has an sshd in its own namespaces, with keys made for the test.

The hosts are those of hosts_rig.py, each with an sshd as its first process. Needs root.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.rigs import namespaces as hosts_rig
from tests.rigs.namespaces import HostsRig

PROGRAMS = ("ssh", "ssh-keygen")
PORT = 2222
SSHD = """
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
LogLevel ERROR
"""
CLIENT = """
Host *
  Port {port}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
"""


def sshd() -> str:
    """Return its path, which is usually not in PATH."""
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") or ""


def missing() -> str | None:
    """Return the reason why hosts cannot be made here. None if they can."""
    if (why := hosts_rig.missing(*PROGRAMS)) is not None or not sshd():
        return f"hosts with ssh need openssh-server, openssh-client and iproute2: {why or 'there is no sshd'}"
    return None


class SshRig(HostsRig):
    """Use `ssh_hosts(folder, number)`."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count, init=f"{sshd()} -D -e -f {folder}/sshd_config")

    def on(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Boot the host. Return when its sshd answers."""
        super().on(name, environment)
        deadline = time.monotonic() + 60.0
        while (answer := self.at(name, "true")).returncode:
            assert time.monotonic() < deadline, answer.stderr
            time.sleep(0.1)

    def up(self, environment: Mapping[str, str] | None = None) -> None:
        """All of them, with keys for this test alone."""
        Path("/run/sshd").mkdir(exist_ok=True)
        for key in ("key", "host_key", "strangers_key"):
            making = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.folder / key)]
            subprocess.run(making, check=True)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        host_key = (self.folder / "host_key.pub").read_text().strip()
        names = [word for name, where in self.address.items() for word in (name, where)]
        (self.folder / "known_hosts").write_text("".join(f"[{name}]:{PORT} {host_key}\n" for name in names))
        (self.folder / "sshd_config").write_text(SSHD.format(port=PORT, folder=self.folder))
        (self.folder / "ssh_config").write_text(CLIENT.format(port=PORT, folder=self.folder))
        super().up(environment)

    def words(self, name: str, command: str) -> list[str]:
        """A command line that carries a command out on a host, for this machine, which knows the hosts by address alone."""
        return ["ssh", "-F", str(self.folder / "ssh_config"), "-T", f"root@{self.address[name]}", command]

    def at(self, name: str, command: str) -> subprocess.CompletedProcess[str]:
        """Carries it out."""
        return subprocess.run(self.words(name, command), capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def pids(self, name: str) -> list[int]:
        """All processes of a host, as this machine numbers them."""
        namespace = Path(f"/proc/{self.init_of(name)}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if (entry / "ns" / "pid").readlink() == namespace:
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found


@contextmanager
def ssh_hosts(folder: Path, number: int) -> Iterator[SshRig]:
    """Create `count` hosts that share `folder`."""
    rig = SshRig(folder, number)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()
