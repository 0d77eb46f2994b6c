"""Real Slurm on this machine. Its nodes are separate hosts (`hosts_rig.py`), each with a slurmd as its first process.

Slurm's controller and munge run next to the tests. Needs root, Debian's slurm-wlm, munge and iproute2.
"""

from __future__ import annotations

import os
import secrets
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.rigs import namespaces as hosts_rig
from tests.rigs.namespaces import HostsRig

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
GresTypes=gpu
NodeName=DEFAULT CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=8000 State=UNKNOWN
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Return the reason why Slurm cannot run here. None if it can."""
    if (why := hosts_rig.missing(*PROGRAMS)) is not None:
        return f"a real Slurm needs slurm-wlm, munge and iproute2: {why}"
    return None


class SlurmRig:
    """Use `slurm(folder, nodes)`."""

    def __init__(self, folder: Path, nodes: int, gpus: Sequence[int] = ()) -> None:
        self.folder = folder
        self._gpus = gpus
        self._number = secrets.randbelow(200)
        self.hosts = HostsRig(folder, nodes, init=f"slurmd -D -N {{name}} -f {folder}/slurm.conf")
        self.names = self.hosts.names
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def ask(self, *words: str) -> str:
        """Return the output of one of Slurm's programs."""
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
        gpus = dict(zip(self.names, self._gpus, strict=False))
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={where}" + (f" Gres=gpu:fake:{gpus[name]}" if gpus.get(name) else "")
            for name, where in self.hosts.address.items()
        )
        (folder / "dev").mkdir()
        for number in range(max(gpus.values(), default=0)):
            os.mknod(folder / "dev" / f"nvidia{number}", 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # each a /dev/null
        (folder / "gres.conf").write_text(
            "".join(
                f"NodeName={name} AutoDetect=off Name=gpu Type=fake File={folder}/dev/nvidia[0-{count - 1}]\n"
                for name, count in gpus.items()
                if count
            )
        )
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
def slurm(folder: Path, nodes: int, gpus: Sequence[int] = ()) -> Iterator[SlurmRig]:
    """Start a Slurm of `count` nodes that share `folder`. `gpus`: fake GPUs of each node, in order."""
    rig = SlurmRig(folder, nodes, gpus)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()
