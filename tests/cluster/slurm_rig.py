"""A real Slurm on this machine: its nodes are hosts of their own (`hosts_rig.py`), each with a slurmd as its first process.

Slurm's controller and munge run beside the tests. Needs root, Debian's slurm-wlm, munge and iproute2.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cluster import hosts_rig
from tests.cluster.hosts_rig import HostsRig

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")

CONFIGURATION = """
ClusterName=aiperf
SlurmctldHost={controller}({address})
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


def missing() -> str | None:
    """Why no Slurm can be had here; None where it can."""
    if (why := hosts_rig.missing(*PROGRAMS)) is not None:
        return f"a real Slurm needs slurm-wlm, munge and iproute2: {why}"
    return None


class SlurmRig:
    """Use `slurm(folder, nodes)`."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        self._number = secrets.randbelow(200)
        self.hosts = HostsRig(folder, nodes, init=f"slurmd -D -N {{name}} -f {folder}/slurm.conf")
        self.names = self.hosts.names
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def ask(self, *words: str) -> str:
        """What one of Slurm's programs answers."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def off(self, name: str) -> None:
        """As if the power had failed: all of the node's processes end at once."""
        self.hosts.off(name)

    def on(self, name: str) -> None:
        """The node boots."""
        self.hosts.on(name, self.environment)

    def up(self) -> None:
        """All of it."""
        folder = self.folder
        (folder / "state").mkdir(parents=True)
        controller = os.uname().nodename
        nodes = "\n".join(f"NodeName={name} NodeAddr={where}" for name, where in self.hosts.address.items())
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                folder=folder,
                controller=controller,
                address=self.hosts.here,
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
        files = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
        self._start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files)
        self._wait(lambda: (folder / "munge.socket").exists())
        self._start("slurmctld", "-D", "-f", str(folder / "slurm.conf"))
        self.hosts.up(self.environment)
        self._wait(lambda: self._idle() == len(self.names))

    def down(self) -> None:
        """Leaves nothing."""
        self.hosts.down()
        for process in self._daemons:
            process.kill()
            process.wait()

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
