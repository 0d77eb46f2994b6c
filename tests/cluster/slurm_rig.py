"""A real Slurm on this machine: each node has a network, a host name, processes and temporary folders of its own.

Slurm's controller and munge run beside the tests; each slurmd lives in namespaces (namespaces(7)), so that a node can be
switched off whole, and reached through a bridge alone. Needs root, Debian's slurm-wlm, munge and iproute2.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "ip", "nsenter", "unshare")
REPOSITORY = Path(__file__).parent.parent.parent

CONFIGURATION = """
ClusterName=aiperf
SlurmctldHost={controller}({subnet}.254)
SlurmctldPort={port}
SlurmdPort={daemon_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=5,batch_sched_delay=0,bf_interval=5
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=10
KillWait=20
NodeName=DEFAULT CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=8000 State=UNKNOWN
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""

# /tmp and /dev/shm are each node's own; the rig's folder (what a parallel file system would be) and the product stay visible.
NODE = """
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
exec slurmd -D -N {name} -f {folder}/slurm.conf
"""


def missing() -> str | None:
    """Why no Slurm can be had here; None where it can."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if sys.platform != "linux" or absent:
        return f"a real Slurm needs {', '.join(absent)} (Debian: slurm-wlm munge iproute2)"
    if os.geteuid() != 0:
        return "a real Slurm needs root, for namespaces"
    return None


class SlurmRig:
    """Use `slurm(folder, nodes)`."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        self._number = secrets.randbelow(200)
        self._mark = f"{os.getpid() % 10000:04}"
        self._subnet = f"10.{40 + self._number // 10}.{os.getpid() % 250}"
        self._bridge = f"asb{self._mark}"
        self.names = [f"n{self._mark}x{number}" for number in range(1, nodes + 1)]
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def ask(self, *words: str) -> str:
        """What one of Slurm's programs answers."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def off(self, name: str) -> None:
        """As if the power had failed: all of the node's processes end at once."""
        node = self._nodes.pop(name)
        node.kill()
        node.wait()

    def on(self, name: str) -> None:
        """The node boots."""
        inside = [
            # ip netns exec would mount another /sys, in which slurmd finds no control groups
            "nsenter",
            f"--net=/run/netns/{name}",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]
        script = NODE.format(name=name, folder=self.folder, repository=REPOSITORY)
        with (self.folder / f"{name}.out").open("ab") as out:
            self._nodes[name] = subprocess.Popen(
                [*inside, "bash", "-c", script], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment
            )

    def up(self) -> None:
        """All of it."""
        folder = self.folder
        (folder / "state").mkdir(parents=True)
        controller = os.uname().nodename
        address = {name: f"{self._subnet}.{number}" for number, name in enumerate(self.names, start=1)}
        hosts = {"localhost": "127.0.0.1", controller: f"{self._subnet}.254", **address}
        (folder / "hosts").write_text("".join(f"{where} {name}\n" for name, where in hosts.items()))
        nodes = "\n".join(f"NodeName={name} NodeAddr={where}" for name, where in address.items())
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                folder=folder,
                controller=controller,
                subnet=self._subnet,
                port=20000 + self._number * 2,
                daemon_port=20001 + self._number * 2,
                nodes=nodes,
                names=",".join(self.names),
            )
        )
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o400)
        for name in self.names:
            (folder / f"spool-{name}").mkdir()
        self._network(address)
        files = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
        self._start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files)
        self._wait(lambda: (folder / "munge.socket").exists())
        self._start("slurmctld", "-D", "-f", str(folder / "slurm.conf"))
        for name in self.names:
            self.on(name)
        self._wait(lambda: self._idle() == len(self.names))

    def down(self) -> None:
        """Leaves nothing."""
        for process in [*self._nodes.values(), *self._daemons]:
            process.kill()
            process.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self._bridge], stderr=subprocess.DEVNULL)

    def _network(self, address: dict[str, str]) -> None:
        def do(*words: str) -> None:
            subprocess.run(["ip", *words], check=True)

        do("link", "add", self._bridge, "type", "bridge")
        do("addr", "add", f"{self._subnet}.254/24", "dev", self._bridge)
        do("link", "set", self._bridge, "up")
        for number, (name, where) in enumerate(address.items()):
            link = f"as{self._mark}n{number}"
            do("netns", "add", name)
            do("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            do("link", "set", link, "master", self._bridge, "up")
            do("-n", name, "addr", "add", f"{where}/24", "dev", "eth0")
            do("-n", name, "link", "set", "eth0", "up")
            do("-n", name, "link", "set", "lo", "up")

    def _start(self, *words: str) -> None:
        with (self.folder / f"{words[0]}.out").open("ab") as out:
            self._daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def _idle(self) -> int:
        with suppress(AssertionError):
            return int(self.ask("sinfo", "--noheader", "--states=idle", "--format=%D") or 0)
        return 0

    def _wait(self, is_so: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, f"Slurm does not come up: see {self.folder}"
            time.sleep(0.1)


@contextmanager
def slurm(folder: Path, nodes: int) -> Iterator[SlurmRig]:
    """A Slurm of so many nodes, which share `folder`."""
    rig = SlurmRig(folder, nodes)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()
