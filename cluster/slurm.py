"""Option +cluster=slurm: a run on nodes of Slurm, by a batch script. Every run under Slurm uses the script.

Outside an allocation sbatch submits the script, inside one (salloc) bash runs it. It starts a step on the first node, with
Ray's head and the driver, and a step on all other nodes, which join the head.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from aiperf.programs import ProgramFailed, ask
from cluster.place import (
    AS_IT_IS,
    HEAD_LOST,
    LINE,
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_OF_A_NODE,
    WORD,
    ClusterError,
    HeadPlace,
    JobState,
    JobSubmission,
    NodesAsked,
    Place,
    SchedulerConf,
    UnknownJob,
    bytes_of,
    form,
    require_shell_lines,
)

SCRIPT = "slurm.sh"
"""Name of the script in the run's folder."""
LOG = "slurm.log"
"""Name of the job's output file in the run's folder."""
OVER = re.compile(
    "BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|LAUNCH_FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|RECONFIG_FAIL|REVOKED|TIMEOUT"
)
"""States of squeue(1) after which a job does not run again. With a requeue another state follows at once."""
HOPELESS = re.compile(
    r"AccountNotAllowed|AssociationTimeLimit|BadConstraints|DeadLine|DependencyNeverSatisfied|Invalid(Account|QOS)"
    r"|MaxMemPerLimit|Partition(Config|NodeLimit|TimeLimit)|QOSNotAllowed|QOSTimeLimit|QOSMin\w+"
    r"|(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?"
)
"""Reasons of squeue(1) for which a job waits until an administrator changes the site's limits."""
HELD = re.compile(
    r"JobHeld(Admin|User)|JobHoldMaxRequeue|launch.failed.requeued.held|REQUEUE_HOLD|RESV_DEL_HOLD|SPECIAL_EXIT"
)
"""Reasons and states of squeue(1) in which a job waits until it is released."""
ANSWER_SECONDS = 60.0
"""Time limit of a program of Slurm, whose controller may be busy."""


_GPUS = r"(\w[\w.-]*:)?[1-9]\d{0,5}(,(\w[\w.-]*:)[1-9]\d{0,5})*"
_TIME = r"(?![0:-]+$)(\d{1,9}(:\d{1,9}){0,2}|\d{1,9}-\d{1,9}(:\d{1,9}){0,2})|UNLIMITED|INFINITE"
_MEMORY = r"(?i:0|[1-9][0-9]{0,15}([KMGT](i?B)?)?)"
_MOUNT = r"[^:,\r\n]+(:[^:,\r\n]+){1,2}"
_OWN = (
    "job-name", "nodes", "output", "error", "time", "signal", "array", "requeue", "no-requeue", "chdir", "ntasks-per-node",
    "open-mode", "no-kill", "wrap", "parsable", "test-only", "wait", "help", "usage", "version",
)  # fmt: skip
"""Options of sbatch that the script sets itself, or with which sbatch does not submit and return."""

_EITHER = {
    "mem-per-cpu": ("mem",),
    "mem-per-gpu": ("mem",),
    "gpus": ("gpus-per-node",),
    "gpus-per-task": ("gpus-per-node",),
    "cpus-per-gpu": ("cpus-per-task",),
}
"""Options of sbatch by one that excludes them."""


@dataclass
class SlurmConf(SchedulerConf):
    """Nodes of Slurm.

    Outside an allocation the run is submitted as a batch job and followed. Ctrl-C leaves it running. Inside an
    allocation (salloc) it runs there.
    """

    kind: str = "slurm"
    nodes: int | None = field(default=None, metadata={"least": 1, "most": MOST_NODES})
    """Number of nodes. Default: 1, or all nodes of the allocation (salloc)."""
    fewest_nodes: int | None = field(default=None, metadata={"least": 1, "most": MOST_NODES})
    """Minimum number of nodes, if others do not join in time. Default: all nodes."""
    join_seconds: float = field(default=300.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Maximum time for the nodes to join."""
    partition: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it, gpu, or gpu,long"))
    """Partition. Default: that of the site. Likewise for account, qos and constraint."""
    account: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it"))
    qos: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it"))
    """Quality of service."""
    constraint: str | None = field(default=None, metadata=form(WORD, "one word as sbatch takes it, a100&nvlink"))
    """Features that the nodes must have."""
    exclusive: bool = True
    """Reserve whole nodes, since other jobs on them would change the measurement."""
    gpus_per_node: str | None = field(default=None, metadata=form(_GPUS, "as sbatch takes it, 8, or a100:8"))
    """GPUs of each node as sbatch takes them: 8, or a100:8. Default: those of the site."""
    cpus_per_node: int | None = field(default=None, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """Processors of each node. Default: all with whole nodes, else those of the site."""
    memory_per_node: str | None = field(
        default=None,
        metadata=form(_MEMORY, "a number with K, M, G or T, of 1024 each: 480G; megabytes without one; 0: all"),
    )
    """Memory of each node as sbatch takes it: 480G. Default: all with whole nodes, else that of the site."""
    margin_seconds: float = field(default=1800.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Time for start-up and report. The job's time limit is the run's declared time plus this."""
    time: str | None = field(
        default=None, metadata=form(_TIME, "as sbatch takes it and above 0, 12:30:00, 1-12:00, or UNLIMITED")
    )
    """Time limit as sbatch takes it. Default: by margin_seconds."""
    signal_seconds: int = field(default=180, metadata={"least": 1, "most": 65535})
    """Time before the time limit at which the run is ended cleanly: its journal is closed and its report written."""
    requeue: bool = False
    """Queue the job again after the time limit or the loss of the first node. The run is resumed from its journal."""
    setup: list[str] = field(default_factory=list, metadata=form(LINE, "a line of bash, source /opt/venv/bin/activate"))
    """Lines of bash that run first on the nodes: module load cuda/12.4. A line that fails ends the job."""
    python: str | None = field(
        default=None, metadata=form(AS_IT_IS, "the path of a program without $ and ~, /opt/venv/bin/python")
    )
    """Python interpreter on the nodes. Default: the path of this one, or in a container `python` of its image."""
    container: str | None = field(
        default=None, metadata=form(LINE, "an image as its runtime takes it, /images/aiperf.sqsh")
    )
    """Container image for all processes."""
    container_runtime: str = field(default="pyxis", metadata={"among": ("pyxis", "apptainer")})
    """pyxis (srun --container-image) or apptainer."""
    container_mounts: list[str] = field(
        default_factory=list, metadata=form(_MOUNT, "SOURCE:TARGET[:OPTIONS], /data:/data")
    )
    """SOURCE:TARGET[:OPTIONS] of each mount. The run's folder and the working directory are always mounted."""
    extra: list[str] = field(
        default_factory=list, metadata=form(rf"--[a-z][a-z-]*(={LINE})?", "a long option of sbatch, --mail-type=END")
    )
    """Additional options of sbatch: --mail-type=END."""

    def check(self) -> None:
        """Check that fewest_nodes, memory_per_node and the options in `extra` are possible. Raise ValueError otherwise."""
        super().check()
        if self.fewest_nodes is not None and self.nodes is not None and self.fewest_nodes > self.nodes:
            raise ValueError(
                f"cluster.fewest_nodes is between 1 and cluster.nodes, {self.nodes}, but found {self.fewest_nodes}: lower it, "
                "or raise cluster.nodes"
            )
        self.requested_nodes()
        require_shell_lines("cluster.setup", self.setup, "bash")
        if self.container is None and (self.container_mounts or self.container_runtime != "pyxis"):
            raise ValueError(
                "cluster.container_mounts and cluster.container_runtime are of a container, but cluster.container is null: "
                "name its image, or leave them out"
            )
        set_here = {name for name, _ in self._directives("", Path(), 0.0)}
        for word in self.extra:
            name = word.lstrip("-").partition("=")[0]
            other = next((each for each in (name, *_EITHER.get(name, ())) if each in set_here - {*_OWN}), None)
            if other is not None:
                raise ValueError(
                    f"an option of sbatch is given once, but found {word!r} in cluster.extra beside --{other} of the "
                    f"script: leave it out, or the option that sets --{other} (cluster.exclusive sets --exclusive and --mem)"
                )
            set_here.add(name)
            if not word.startswith("--") or name in _OWN:
                raise ValueError(
                    "cluster.extra holds long options of sbatch which the batch script does not set, and with which sbatch "
                    f"submits and returns, but found {word!r}: "
                    f"write --name=value, and not one of {', '.join(_OWN)}"
                )

    def check_run(self, seconds: float, data: str | None) -> None:
        """Check that the job's time limit holds the run. A job that is queued again may be shorter."""
        limit = (
            math.inf
            if self.time in ("UNLIMITED", "INFINITE")
            else seconds_of(self.time or time_limit(seconds + self.margin_seconds))
        )
        patience = self.join_seconds if self.nodes not in (None, 1) else 0.0
        needed = {"cluster.signal_seconds": float(self.signal_seconds)}
        if not self.requeue:
            needed |= {"schedule.duration_seconds": seconds, "cluster.join_seconds": patience}
        if limit < math.fsum(needed.values()):
            given = f"cluster.time={self.time}" if self.time else f"cluster.margin_seconds={self.margin_seconds:g}"
            summed = " + ".join(f"{name} {value:g}" for name, value in needed.items() if value)
            raise ValueError(
                f"a job's time limit is at least {summed} = {math.fsum(needed.values()):g} s, but found {given}, which gives "
                f"{limit:g} s: {'leave cluster.time out' if self.time else 'raise cluster.margin_seconds'}, or lower these"
            )

    def requested_nodes(self) -> NodesAsked:
        """Return the nodes that the job requests: number, GPUs, processors and memory in bytes of each.

        Without cluster.nodes the number is 1, also within an allocation with more nodes. Other values are None if the site's
        defaults determine them, if all of a node is requested, or if the GPUs have several models.

        Raises:
            ValueError: cluster.memory_per_node or cluster.accelerator_memory is not a number with a permitted unit.
        """
        memory = self.memory_per_node
        return replace(
            super().requested_nodes(),
            nodes=self.nodes or 1,
            accelerators=accelerators_of(self.gpus_per_node),
            cores=self.cpus_per_node,
            memory_bytes=None if memory in (None, "0") else bytes_of("cluster.memory_per_node", memory, "M"),
        )

    def requested_resources(self, seconds: float) -> Sequence[tuple[str, str]]:
        shown = [(name, value) for name, value in self._directives("", Path(), seconds) if name not in _NOT_SHOWN]
        options = " ".join([*(f"--{name}{f'={value}' if value else ''}" for name, value in shown), *self.extra])
        how = "cluster.submit=false prints it"
        return [
            ("requested", f"sbatch {options}"),
            ("script", f"{SCRIPT} in the run's folder, written when it is submitted. {how}"),
        ]

    def place(self, environment: Mapping[str, str]) -> Place:
        """Ray's head to start in an allocation. Raise ClusterError if that has another number of nodes than cluster.nodes."""
        granted_text = environment.get("SLURM_JOB_NUM_NODES", str(self.nodes or 1))
        if not re.fullmatch("[1-9][0-9]{0,6}", granted_text):
            raise ClusterError(
                f"SLURM_JOB_NUM_NODES is the number of nodes of an allocation, but found {granted_text!r}: begin the run in an "
                "allocation (salloc), or unset the variable"
            )
        granted = int(granted_text)
        if self.nodes not in (None, granted):
            raise ClusterError(
                f"within an allocation the run takes all of its nodes: SLURM_JOB_NUM_NODES is {granted}, but found "
                f"cluster.nodes={self.nodes}. Leave cluster.nodes out, or ask Slurm for {self.nodes} nodes"
            )
        fewest = granted if self.fewest_nodes is None else min(self.fewest_nodes, granted)
        return HeadPlace(granted, fewest, self.join_seconds)

    def is_allocated(self, environment: Mapping[str, str]) -> bool:
        """Return True if `environment` (environment variables) belongs to an allocation of Slurm.

        A shell outside of Slurm may have SLURM_JOB_ID alone. An allocation also names its nodes and has the program
        scontrol.
        """
        has_job = {"SLURM_JOB_ID", "SLURM_JOB_NODELIST"} <= environment.keys()
        return has_job and shutil.which("scontrol", path=environment.get("PATH")) is not None

    def job(self, submission: JobSubmission) -> SlurmJob:
        """Return the run as a job of Slurm, with its batch script. Nothing is submitted yet."""
        return SlurmJob(batch_script(self, submission), submission.folder, submission.program)

    def _directives(self, name: str, folder: Path, seconds: float) -> Iterator[tuple[str, str]]:
        """Yield options of sbatch(1) with their values. The value is '' for an option without one."""
        yield "job-name", name
        yield "nodes", str(self.nodes or 1)
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
        yield "output", f"{str(folder).replace('%', '%%')}/{LOG}"


TEMPLATE = Path(__file__).with_name("slurm.sh")
"""Batch script with a mark @NAME@ for each part that depends on the run."""
_SRUN = "srun --overlap --ntasks-per-node=1 --cpu-bind=none --mem=0 --no-kill --kill-on-bad-exit=0 --export=ALL"
_NOT_SHOWN = ("job-name", "output", "open-mode", "no-kill", "signal", "ntasks-per-node")
"""Options of sbatch that request no resources."""


def accelerators_of(value: str | None) -> int | None:
    """Return the number of GPUs per node in a value of sbatch's option --gpus-per-node, such as a100:4.

    None if it has several models or no number, or is None.

    >>> accelerators_of("8"), accelerators_of("a100:4"), accelerators_of("a100:4,v100:2"), accelerators_of(None)
    (8, 4, None, None)
    """
    _, _, number = (value or "").rpartition(":")
    return int(number) if number.isdigit() and "," not in (value or "") else None


def quoted(value: str) -> str:
    """Return `value` for a line #SBATCH, in double quotes if sbatch would split or change it.

    >>> quoted("gpu"), quoted("/runs/my run/slurm.log")
    ('gpu', '"/runs/my run/slurm.log"')
    """
    if re.fullmatch(r"[\w@%+=:,./&|*!\[\]-]*", value, flags=re.ASCII):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def batch_script(conf: SlurmConf, submission: JobSubmission) -> str:
    directives = [*conf._directives(submission.name, submission.folder, submission.seconds)]
    lines = [f"#SBATCH --{name}{f'={quoted(value)}' if value else ''}" for name, value in directives]
    for word in conf.extra:
        name, equals, value = word.partition("=")
        lines.append(f"#SBATCH {name}{equals}{quoted(value)}")
    step, prefix = _container(conf, submission)
    python = conf.python or (submission.python if conf.container is None else "python")
    # the shell that watches the first node needs Slurm's programs: it stays outside of the container
    own_node = f"""{_SRUN} ${{0:+--gres="$0"}} --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" "$@\""""
    parts = {
        "DIRECTIVES": "\n".join(lines),
        "PROGRAM": submission.program,
        "VERB": shlex.join(submission.verb),
        "WORDS": shlex.join(submission.words),
        "DIRECTORY": shlex.quote(str(submission.directory)),
        "SETUP": "".join(f"{line} || exit\n" for line in conf.setup),
        "RUN": shlex.quote(str(submission.folder)),
        "SRUN": _SRUN,
        "HEAD_LOST": str(HEAD_LOST),
        "WITHOUT_HEAD": "scontrol requeue" if conf.requeue else "scancel",
        "AT_LIMIT": '[ -z "$limit" ] || ! owns || scontrol requeue "$job"\n' if conf.requeue else "",
        "INNER": f"""bash -c 'exec {own_node}' "$gres"{step} """ if step else "",
        "CONTAINER": step,
        "AIPERF": f"$hide {prefix}{shlex.quote(python)} -m aiperf",
    }
    return re.sub("@([A-Z_]+)@", lambda mark: parts[mark[1]], TEMPLATE.read_text("utf-8"))


def _container(conf: SlurmConf, submission: JobSubmission) -> tuple[str, str]:
    """Return the additional options of srun, and the words before the program."""
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


def seconds_of(limit: str) -> float:
    """Return the seconds of a time limit as sbatch takes it.

    >>> seconds_of("90"), seconds_of("12:30:00"), seconds_of("1-12"), seconds_of("0-00:33:00")
    (5400.0, 45000.0, 129600.0, 1980.0)
    """
    days, dash, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    # without days: minutes, minutes:seconds, hours:minutes:seconds; with days: hours[:minutes[:seconds]]
    units = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    return float(int(days or 0) * 86400 + sum(part * unit for part, unit in zip(parts, units, strict=False)))


def time_limit(seconds: float) -> str:
    """Return a duration for sbatch's option --time: days-hours:minutes:seconds, rounded up to whole minutes.

    >>> time_limit(12 * 3600 + 1800), time_limit(90)
    ('0-12:30:00', '0-00:02:00')
    """
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Run as a job of Slurm, with its batch script. All nodes and this machine share the run's folder."""

    script: str
    folder: Path
    program: str
    script_name: ClassVar[str] = SCRIPT
    advice: ClassVar[str] = (
        "ask for what the partition allows (cluster.nodes, cluster.time, cluster.account, cluster.qos)"
    )
    writes_here: ClassVar[bool] = True

    def submit(self, script: Path) -> str:
        """Submit the script in the file `script` by sbatch. Return the job's id: JOB, or JOB;CLUSTER if sbatch names one."""
        answer = _run("sbatch", "--parsable", str(script), keeps_locale=True)  # the job gets this environment
        ids = [line for line in answer if re.fullmatch(r"\d+(;\S+)?", line)]  # a site may print a greeting before
        if not ids:
            raise ClusterError(
                f"sbatch printed no job id, but {' | '.join(answer)[:300]!r}. Look for the job with squeue --me, and cancel it"
            )
        return ids[-1]

    def state(self, job: str) -> JobState:
        """Return the state of the job with the id `job`, by squeue."""
        number, on = _named(job)
        try:
            lines = _run("squeue", *on, "--noheader", "--states=all", f"--jobs={number}", "--format=%T|%r|%N")
        except ClusterError as error:
            if "Invalid job id" not in str(error):
                raise
            lines = []
        rows = [line for line in lines if line.count("|") >= 2 and not line.startswith("CLUSTER:")]
        if not rows:
            raise UnknownJob(f"squeue does not know job {job}. Look for it with squeue {' '.join([*on, '--me'])}")
        (name, _, reason), nodes = rows[0].rpartition("|")[0].partition("|"), rows[0].rpartition("|")[2]
        reason = "" if reason == "None" else reason
        is_hopeless = name == "PENDING" and HOPELESS.fullmatch(reason) is not None
        if HELD.fullmatch(reason) or HELD.fullmatch(name):
            release = " ".join(["scontrol", *on, "release", number])
            reason = f"{reason or name}. It is held until you or an operator of Slurm releases it: `{release}`"
        return JobState(name, reason, nodes, OVER.fullmatch(name) is not None, is_hopeless)

    def cancel(self, job: str) -> None:
        """End the job with the id `job` by scancel."""
        number, on = _named(job)
        _run("scancel", *on, number)

    def lines(self, job: str) -> Sequence[str]:
        """Return the last line of the job's output, which the driver writes every minute. Empty before it. `job`: not used."""
        with suppress(FileNotFoundError), (self.folder / LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()[-1:]
        return ()

    def fetch(self, job: str) -> None:
        """Do nothing, because the run's folder is shared with this machine."""

    @property
    def last_output(self) -> str:
        """Path of the job's output file, quoted for a shell. If it is missing, the probable reason."""
        path = self.folder / LOG
        why = "" if path.exists() else ", which does not exist: runs= must lie on a file system that the nodes share"
        return f"{shlex.quote(str(path))}{why}"

    @property
    def status_command(self) -> str:
        return f"{self.program} status {shlex.quote(str(self.folder))}"


TAIL_BYTES = 4096


def _named(job: str) -> tuple[str, list[str]]:
    """Return the number of a job, and the options that name its cluster.

    >>> _named("7"), _named("7;inter")
    (('7', []), ('7', ['--clusters=inter']))
    """
    number, _, cluster = job.partition(";")
    return number, [f"--clusters={cluster}"] if cluster else []


def _run(*words: str, keeps_locale: bool = False) -> list[str]:
    """Return the lines that a program of Slurm prints. `keeps_locale`: run it in the user's locale."""
    if shutil.which(words[0]) is None:
        raise ClusterError(
            f"+cluster=slurm needs Slurm's programs, but there is no {words[0]} here: log in to a node of the cluster, or "
            "print the batch script with cluster.submit=false"
        )
    try:
        answer = ask(words, seconds=ANSWER_SECONDS, keeps_locale=keeps_locale)
    except ProgramFailed as error:
        raise ClusterError(str(error)) from error
    if answer.status:
        message = re.sub(rf"^{words[0]}: (error: )?", "", answer.errors.strip(), flags=re.MULTILINE)
        reason = " | ".join(message.splitlines()) or f"status {answer.status}"
        raise ClusterError(f"{words[0]} refused: {reason}. Change the options cluster.*, or ask the operators of Slurm")
    return [line.strip() for line in answer.output.splitlines()]
