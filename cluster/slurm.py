"""Nodes that Slurm grants: `+cluster=slurm`. What its batch script says is a function of values; submitting is thin.

The script is the one way in which a run takes place under Slurm. Outside an allocation it is handed to sbatch, within one
(salloc) it is carried out by bash. It starts one step on the first node, with Ray's head and the driver in it, and one on all
others, whose nodes join that head through a file in the run's folder (docs/slurm.md).
"""

from __future__ import annotations

import math
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cluster.place import (
    HEAD_LOST,
    LINE,
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_OF_A_NODE,
    WORD,
    BatchConf,
    ClusterError,
    Head,
    JobState,
    NodesAsked,
    Place,
    Submission,
    bytes_of,
    form,
)

SCRIPT = "slurm.sh"
"""The script's name in the run's folder."""
RUNNING = frozenset(
    [
        "PENDING",
        "CONFIGURING",
        "RUNNING",
        "COMPLETING",
        "REQUEUED",
        "REQUEUE_HOLD",
        "SUSPENDED",
        "RESIZING",
        "SIGNALING",
        "STAGE_OUT",
    ]
)
"""States of squeue(1) in which a job may still go on."""
HOPELESS = frozenset(
    [
        "AccountNotAllowed",
        "AssocMaxNodePerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSMaxNodePerJobLimit",
        "QOSMaxWallDurationPerJobLimit",
        "QOSNotAllowed",
    ]
)
"""Reasons of squeue(1) for which a job would wait until an administrator changes the site's limits."""


_GPUS = r"(\w[\w.-]*:)?[1-9]\d{0,5}(,(\w[\w.-]*:)[1-9]\d{0,5})*"
_TIME = r"\d{1,9}(:\d{1,9}){0,2}|\d{1,9}-\d{1,9}(:\d{1,9}){0,2}|UNLIMITED|INFINITE"
_MEMORY = r"(?i:0|[1-9][0-9]{0,15}([KMGT](i?B)?)?)"
_MOUNT = r"[^:,\r\n]+(:[^:,\r\n]+){1,2}"
_OWN = (
    "job-name",
    "nodes",
    "output",
    "error",
    "time",
    "signal",
    "array",
    "requeue",
    "no-requeue",
    "chdir",
    "ntasks-per-node",
    "open-mode",
    "no-kill",
    "wrap",
    "parsable",
)
"""Options of sbatch that the script sets by itself, or that would break it."""


@dataclass
class SlurmConf(BatchConf):
    """Nodes that Slurm grants. Outside an allocation the run is submitted as a batch job and followed; Ctrl-C leaves it
    running. Within one (salloc) it takes place there."""

    kind: str = "slurm"
    nodes: int = field(default=1, metadata={"least": 1, "most": MOST_NODES})
    """Nodes of the job."""
    fewest_nodes: int | None = field(default=None, metadata={"least": 1, "most": MOST_NODES})
    """The run begins with so many where the others have not joined in time; none: it needs them all."""
    join_seconds: float = field(default=300.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """How long the nodes may take to join."""
    partition: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it, gpu, or gpu,long"))
    """None: the site's default; likewise below."""
    account: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it"))
    qos: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it"))
    """Quality of service."""
    constraint: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it, a100&nvlink"))
    """Features that the nodes must have."""
    exclusive: bool = True
    """Whole nodes: what others compute on them would be measured too."""
    gpus_per_node: str | None = field(default=None, metadata=form(_GPUS, "as sbatch takes it, 8, or a100:8"))
    """As sbatch takes it: 8, or a100:8. None: what the site gives with its nodes."""
    cpus_per_node: int | None = field(default=None, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """None: with whole nodes all of them, else the site's default."""
    memory_per_node: str | None = field(
        default=None,
        metadata=form(_MEMORY, "a number with K, M, G or T, of 1024 each: 480G; megabytes without one; 0: all"),
    )
    """As sbatch takes it, 480G; none: with whole nodes all of it, else the site's default."""
    margin_seconds: float = field(default=1800.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """The job's time limit is the run's declared time and so much for start-up and report."""
    time: str | None = field(default=None, metadata=form(_TIME, "as sbatch takes it, 12:30:00, or 1-12:00"))
    """The time limit itself, as sbatch takes it; none: by margin_seconds."""
    signal_seconds: int = field(default=180, metadata={"least": 1, "most": 65535})
    """So long before the time limit the run is ended cleanly: its journal is closed, its report written."""
    requeue: bool = False
    """After the time limit or the loss of the first node the job is queued again, and the run goes on from its journal."""
    modules: list[str] = field(default_factory=list, metadata=form(WORD, "a module's name, cuda/12.4"))
    """Loaded on the nodes before anything else: module load …"""
    setup: list[str] = field(default_factory=list, metadata=form(LINE, "a line of bash, source /opt/venv/bin/activate"))
    """Lines of bash that come next."""
    container: str | None = field(
        default=None, metadata=form(LINE, "an image as its runtime takes it, /images/aiperf.sqsh")
    )
    """An image within which all of it runs."""
    container_runtime: str = field(default="pyxis", metadata={"among": ("pyxis", "apptainer")})
    """pyxis (srun --container-image), or apptainer."""
    container_mounts: list[str] = field(
        default_factory=list, metadata=form(_MOUNT, "SOURCE:TARGET[:OPTIONS], /data:/data")
    )
    """SOURCE:TARGET[:OPTIONS] each; the run's folder and the working directory are always there."""
    extra: list[str] = field(
        default_factory=list, metadata=form(r"--" + LINE, "a long option of sbatch, --mail-type=END")
    )
    """More arguments of sbatch, as they are: --mail-type=END."""
    repeat: int = field(default=1, metadata={"least": 1, "most": 1000})
    """So many equal runs, one after the other, as an array of jobs: how repeatable is the score?"""

    def check(self) -> None:
        """See `ClusterConf.check`."""
        super().check()
        if self.fewest_nodes is not None and self.fewest_nodes > self.nodes:
            raise ValueError(
                f"cluster.fewest_nodes is between 1 and cluster.nodes, {self.nodes}; found {self.fewest_nodes}"
            )
        self.nodes_asked()
        for word in self.extra:
            name = word.lstrip("-").partition("=")[0]
            if not word.startswith("--") or name in _OWN:
                raise ValueError(
                    f"cluster.extra holds long options of sbatch that the batch script does not set itself; found {word!r}: "
                    f"write --name=value, and not one of {', '.join(_OWN)}"
                )

    def nodes_asked(self) -> NodesAsked:
        """What the job asks for. What the site gives by default is not known."""
        memory = self.memory_per_node
        return replace(
            super().nodes_asked(),
            nodes=self.nodes,
            accelerators=accelerators_of(self.gpus_per_node),
            cores=self.cpus_per_node,
            memory_bytes=None if memory in (None, "0") else bytes_of("cluster.memory_per_node", memory, "M"),
        )

    def asked_for(self, seconds: float) -> Sequence[tuple[str, str]]:
        """The options of sbatch, and where the script will lie."""
        said = [(name, value) for name, value in self._directives("", Path(), seconds) if name not in _NOT_SHOWN]
        options = " ".join([*(f"--{name}{f'={value}' if value else ''}" for name, value in said), *self.extra])
        how = "cluster.submit=false prints it"
        return [
            ("asked for", f"sbatch {options}"),
            ("script", f"{SCRIPT} in the run's folder, written when it is submitted; {how}"),
        ]

    def place(self, environment: Mapping[str, str]) -> Place:
        """A head of our own, which the job's other nodes join."""
        granted = int(environment.get("SLURM_JOB_NUM_NODES", self.nodes))
        fewest = granted if self.fewest_nodes is None else min(self.fewest_nodes, granted)
        return Head(granted, fewest, self.join_seconds)

    def is_allocated(self, environment: Mapping[str, str]) -> bool:
        """Whether this environment is within an allocation of Slurm."""
        return "SLURM_JOB_ID" in environment

    def job(self, submission: Submission) -> SlurmJob:
        """The run as a batch job."""
        return SlurmJob(batch_script(self, submission), SCRIPT, folders(self, submission), submission.program)

    def _directives(self, name: str, folder: Path, seconds: float) -> Iterator[tuple[str, str]]:
        """Options of sbatch(1) and their values; '' for one that has none."""
        yield "job-name", name
        yield "nodes", str(self.nodes)
        yield "ntasks-per-node", "1"
        for option in ("partition", "account", "qos", "constraint"):
            if (value := getattr(self, option)) is not None:
                yield option, value
        if self.exclusive:
            yield "exclusive", ""
        if self.gpus_per_node is not None:
            yield "gpus-per-node", self.gpus_per_node
        if self.cpus_per_node is not None:
            yield "cpus-per-task", str(self.cpus_per_node)
        if self.memory_per_node is not None or self.exclusive:
            yield "mem", self.memory_per_node or "0"
        yield "time", self.time or time_limit(seconds + self.margin_seconds)
        # to the script alone (B:), which passes it on to the driver
        yield "signal", f"B:USR1@{self.signal_seconds}"
        yield "no-kill", ""  # the loss of a node is survived
        yield ("requeue" if self.requeue else "no-requeue"), ""
        yield "open-mode", "append"
        if self.repeat > 1:
            yield "array", f"1-{self.repeat}%1"
        yield "output", f"{folder}{'-%a' if self.repeat > 1 else ''}/slurm.log"


_NOT_SHOWN = ("job-name", "output", "open-mode", "no-kill", "signal", "ntasks-per-node")
"""Options of sbatch by which nothing is asked for."""


def accelerators_of(word: str | None) -> int | None:
    """How many --gpus-per-node means, of one model; None where it does not say.

    >>> accelerators_of("8"), accelerators_of("a100:4"), accelerators_of("a100:4,v100:2"), accelerators_of(None)
    (8, 4, None, None)
    """
    _, _, number = (word or "").rpartition(":")
    return int(number) if number.isdigit() and "," not in (word or "") else None


def folders(conf: SlurmConf, submission: Submission) -> tuple[Path, ...]:
    """The runs' folders."""
    if conf.repeat == 1:
        return (submission.folder,)
    return tuple(
        submission.folder.with_name(f"{submission.folder.name}-{number}") for number in range(1, conf.repeat + 1)
    )


def batch_script(conf: SlurmConf, submission: Submission) -> str:
    """The whole script, for sbatch or for bash within an allocation."""
    directives = [*conf._directives(submission.name, submission.folder, submission.seconds)]
    lines = [f"#SBATCH --{name}{f'={value}' if value else ''}" for name, value in directives]
    lines += [f"#SBATCH {word}" for word in conf.extra]
    run = shlex.quote(str(submission.folder)) + ("-$SLURM_ARRAY_TASK_ID" if conf.repeat > 1 else "")
    step, prefix = _container(conf, submission)
    before = "".join(
        [
            *(f"module load {shlex.quote(name)} || exit\n" for name in conf.modules),
            *(f"{line}\n" for line in conf.setup),
        ]
    )
    aiperf = f"{prefix}{shlex.quote(submission.python)} -m aiperf"
    return f"""#!/bin/bash
{chr(10).join(lines)}

# Written by: {submission.program} {shlex.join(submission.words)}
# The first node holds Ray's head and the driver; the others join it through a file in the run's folder.
# Queued again, the run goes on from its journal.

cd {shlex.quote(str(submission.directory))} || exit
{before}run={run}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
others=$((SLURM_JOB_NUM_NODES - 1))

# A step on some of the nodes: one process on each, which may use all that the job was granted there.
step() {{
  srun --overlap --ntasks-per-node=1 --cpu-bind=none --mem=0 --no-kill --kill-on-bad-exit=0{step} "$@"
}}

# A job that may lose nodes goes on without its first node too, and without this script (Slurm 22.05): the others end it then.
joined='"$@"; status=$?; [ "$status" -ne {HEAD_LOST} ] || {_without_head(conf)} "$SLURM_JOB_ID"; exit "$status"'
nodes=
if [ "$others" -gt 0 ]; then
  step --nodes="$others" --ntasks="$others" --exclude="$first" bash -c "$joined" join {aiperf} join "$run" &
  nodes=$!
fi
step --nodes=1 --ntasks=1 --nodelist="$first" {aiperf} {shlex.join(submission.verb)} "$run" {shlex.join(submission.words)} &
driver=$!

# Before the time limit Slurm sends USR1: the driver is asked to close the journal and to write the report.
limit=
trap 'limit=reached; touch "$run/end-requested"' USR1
trap 'touch "$run/end-requested"' TERM INT
while kill -0 "$driver" 2>/dev/null; do
  wait "$driver"  # returns early for a signal
done
wait "$driver"
status=$?
[ -z "$nodes" ] || {{ kill "$nodes"; wait "$nodes"; }} 2>/dev/null
{_after(conf)}exit "$status"
"""


def _container(conf: SlurmConf, submission: Submission) -> tuple[str, str]:
    """What srun is given besides, and what stands before the program."""
    if conf.container is None:
        return "", ""
    own = [f"{submission.folder.parent}:{submission.folder.parent}", f"{submission.directory}:{submission.directory}"]
    mounts = list(dict.fromkeys([*own, *conf.container_mounts]))
    if conf.container_runtime == "pyxis":
        words = [f"--container-image={conf.container}", f"--container-mounts={','.join(mounts)}"]
        return " " + shlex.join([*words, f"--container-workdir={submission.directory}"]), ""
    binds = [word for mount in mounts for word in ("--bind", mount)]
    return "", shlex.join(
        ["apptainer", "exec", "--nv", *binds, "--pwd", str(submission.directory), conf.container]
    ) + " "


def _without_head(conf: SlurmConf) -> str:
    return "scontrol requeue" if conf.requeue else "scancel"


def _after(conf: SlurmConf) -> str:
    if not conf.requeue:
        return ""
    return """if [ -n "$limit" ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
"""


def time_limit(seconds: float) -> str:
    """As sbatch takes it: days-hours:minutes:seconds, in whole minutes, since Slurm looks no closer.

    >>> time_limit(12 * 3600 + 1800), time_limit(90)
    ('0-12:30:00', '0-00:02:00')
    """
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """See `place.BatchJob`."""

    script: str
    script_name: str
    folders: Sequence[Path]
    program: str

    def submit(self, script: Path) -> str:
        """Gives the job's id."""
        return _asked("sbatch", "--parsable", str(script)).partition(";")[0]

    def run_here(self, script: Path) -> int:
        """By bash, in this allocation."""
        return subprocess.run(["bash", str(script)], check=False).returncode

    def state(self, job: str) -> JobState:
        """By squeue; a job that it has forgotten is over."""
        try:
            lines = _asked("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r|%N").splitlines()
        except ClusterError as error:
            if "Invalid job id" not in str(error):
                raise
            lines = []
        if not lines:
            return JobState("COMPLETED", "", "", is_over=True)
        found = [line.split("|") for line in lines]
        # of an array: over when all of them are; shown is the one that is furthest from its end
        name, reason, nodes = next((each for each in found if each[0] == "RUNNING"), None) or min(
            found, key=lambda each: each[0] not in RUNNING
        )
        reason = "" if reason == "None" else reason
        is_hopeless = name == "PENDING" and reason in HOPELESS
        return JobState(name, reason, nodes, name not in RUNNING, is_hopeless)

    def cancel(self, job: str) -> None:
        """By scancel."""
        _asked("scancel", job)

    def lines(self, job: str) -> None:
        """The folder is shared."""

    def fetch(self, job: str) -> None:
        """Nothing: the folder is shared."""

    @property
    def advice(self) -> str:
        """See `place.BatchJob`."""
        return "ask for what the partition allows (cluster.nodes, cluster.time, cluster.account, cluster.qos)"

    @property
    def last_words(self) -> str:
        """See `place.BatchJob`."""
        return shlex.join(
            str(folder / "slurm.log") for folder in self.folders if not (folder / "journal.jsonl").is_file()
        )

    @property
    def how_to_look(self) -> str:
        """See `place.BatchJob`."""
        return f"{self.program} status {shlex.quote(str(self.folders[0]))}"


def _asked(*words: str) -> str:
    """A program's answer. Raises ClusterError, with its own words, where it is not there or refuses."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ClusterError(
            f"+cluster=slurm needs Slurm's programs; there is no {words[0]} here: log in to a node of the cluster, or "
            "print the batch script with cluster.submit=false"
        ) from error
    if done.returncode:
        told = re.sub(rf"^{words[0]}: (error: )?", "", done.stderr.strip(), flags=re.MULTILINE)
        raise ClusterError(f"{words[0]} refused: {'; '.join(told.splitlines()) or f'status {done.returncode}'}")
    return done.stdout.strip()
