"""Option +cluster=slurm: a run on nodes of Slurm, by a batch script.

Every run under Slurm uses the script. Outside an allocation sbatch submits it. Inside one (salloc) bash runs it. The script
starts one step on the first node, with Ray's head and the driver, and one step on all other nodes, which join the head.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
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
    ClusterError,
    HeadPlace,
    JobState,
    JobSubmission,
    NodesAsked,
    Place,
    SchedulerConf,
    bytes_of,
    form,
)

SCRIPT = "slurm.sh"
"""Name of the script in the run's folder."""
RUNNING = re.compile(
    "PENDING|CONFIGURING|RUNNING|COMPLETING|REQUEUED|REQUEUE_HOLD|SUSPENDED|RESIZING|SIGNALING|STAGE_OUT"
)
"""States of squeue(1) in which a job may still continue."""
HOPELESS = re.compile(
    "AccountNotAllowed|(Assoc|QOS)Max(Node|WallDuration)PerJobLimit|BadConstraints|Invalid(Account|QOS)"
    "|Partition(Config|NodeLimit|TimeLimit)|QOSNotAllowed"
)
"""Reasons of squeue(1) for which a job waits until an administrator changes the site's limits."""


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
"""Options of sbatch that the script sets itself, or that would break it."""


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
    time: str | None = field(default=None, metadata=form(_TIME, "as sbatch takes it, 12:30:00, or 1-12:00"))
    """Time limit as sbatch takes it. Default: by margin_seconds."""
    signal_seconds: int = field(default=180, metadata={"least": 1, "most": 65535})
    """Time before the time limit at which the run is ended cleanly: its journal is closed and its report written."""
    requeue: bool = False
    """Queue the job again after the time limit or the loss of the first node. The run is resumed from its journal."""
    setup: list[str] = field(default_factory=list, metadata=form(LINE, "a line of bash, source /opt/venv/bin/activate"))
    """Lines of bash that run first on the nodes: module load cuda/12.4. A line that fails ends the job."""
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
        default_factory=list, metadata=form(r"--" + LINE, "a long option of sbatch, --mail-type=END")
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
        for word in self.extra:
            name = word.lstrip("-").partition("=")[0]
            if not word.startswith("--") or name in _OWN:
                raise ValueError(
                    f"cluster.extra holds long options of sbatch which the batch script does not set, but found {word!r}: "
                    f"write --name=value, and not one of {', '.join(_OWN)}"
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
        """Return rows (name, text) for the printed plan: the options of sbatch, and the name of the script.

        `seconds`: declared duration of the run. The time limit depends on it.
        """
        shown = [(name, value) for name, value in self._directives("", Path(), seconds) if name not in _NOT_SHOWN]
        options = " ".join([*(f"--{name}{f'={value}' if value else ''}" for name, value in shown), *self.extra])
        how = "cluster.submit=false prints it"
        return [
            ("requested", f"sbatch {options}"),
            ("script", f"{SCRIPT} in the run's folder, written when it is submitted. {how}"),
        ]

    def place(self, environment: Mapping[str, str]) -> Place:
        """Return Ray's head to start in an allocation, with the number of nodes that join it.

        `environment`: environment variables. SLURM_JOB_NUM_NODES is the number of nodes of the allocation.

        Raises:
            ClusterError: the allocation has another number of nodes than cluster.nodes.
        """
        granted = int(environment.get("SLURM_JOB_NUM_NODES", self.nodes or 1))
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
        return SlurmJob(batch_script(self, submission), SCRIPT, submission.folder, submission.program)

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
        yield "output", f"{str(folder).replace('%', '%%')}/slurm.log"


DOWN_SECONDS = 30
"""Interval at which nodes query Slurm for the state of the first node, after their part has ended and until their step
is ended."""
LEAVE_SECONDS = 15
"""Time for the nodes to leave by themselves when the driver has ended."""
GPUS_OF_STEPS = """# A job of whole nodes owns their GPUs, but a step gets only GPUs that were requested by name.
details=$(scontrol --oneliner --details show job "$SLURM_JOB_ID")
gres=
case $details in
  *TresPer*) ;;  # requested by cluster.gpus_per_node or by the allocation: steps get the same
  *)
    gres=$(tr ' ' '\\n' <<< "$details" | awk '
      sub(/^GRES=/, "") {
        gsub(/\\([^)]*\\)/, "")
        count = split($0, kinds, ","); gpus = ""
        for (at = 1; at <= count; at++) if (kinds[at] ~ /^gpu/) gpus = gpus (gpus == "" ? "" : ",") kinds[at]
        print gpus
      }' | sort -u)
    if [ "$(wc -l <<< "$gres")" -gt 1 ]; then
      echo "aiperf: all nodes of a run need the same GPUs, but found:" ${gres//$'\\n'/ and }". Set cluster.gpus_per_node" >&2
      exit 2
    fi ;;
esac
"""
"""Part of the script that sets `gres`, the GPUs of each step."""
_NOT_SHOWN = ("job-name", "output", "open-mode", "no-kill", "signal", "ntasks-per-node")
"""Options of sbatch that request no resources."""


def accelerators_of(word: str | None) -> int | None:
    """Return the number of GPUs per node in a value of sbatch's option --gpus-per-node, such as a100:4.

    None if it has several models or no number, or is None.

    >>> accelerators_of("8"), accelerators_of("a100:4"), accelerators_of("a100:4,v100:2"), accelerators_of(None)
    (8, 4, None, None)
    """
    _, _, number = (word or "").rpartition(":")
    return int(number) if number.isdigit() and "," not in (word or "") else None


def quoted(value: str) -> str:
    """Return `value` for a line #SBATCH, in double quotes if sbatch would split or change it.

    >>> quoted("gpu"), quoted("/runs/my run/slurm.log")
    ('gpu', '"/runs/my run/slurm.log"')
    """
    if re.fullmatch(r"[\w@%+=:,./&|*!\[\]-]*", value, flags=re.ASCII):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def batch_script(conf: SlurmConf, submission: JobSubmission) -> str:
    """Return the text of the bash script that runs a benchmark on all nodes of a job. Nothing is written.

    `conf`: options of Slurm. `submission`: the run. sbatch submits the script, or bash runs it inside an allocation.
    """
    directives = [*conf._directives(submission.name, submission.folder, submission.seconds)]
    lines = [f"#SBATCH --{name}{f'={quoted(value)}' if value else ''}" for name, value in directives]
    for word in conf.extra:
        name, equals, value = word.partition("=")
        lines.append(f"#SBATCH {name}{equals}{quoted(value)}")
    run = shlex.quote(str(submission.folder))
    step, prefix = _container(conf, submission)
    before = "".join(f"{line} || exit\n" for line in conf.setup)
    aiperf = f"{prefix}{shlex.quote(submission.python)} -m aiperf"
    without_head = "scontrol requeue" if conf.requeue else "scancel"
    at_limit = '[ -z "$limit" ] || scontrol requeue "$SLURM_JOB_ID"\n' if conf.requeue else ""
    return f"""#!/bin/bash
{chr(10).join(lines)}

# Written by: {submission.program} {shlex.join(submission.words)}
# The first node holds Ray's head and the driver; the others join it through a file in the run's folder.
# Queued again, the run goes on from its journal.

cd {shlex.quote(str(submission.directory))} || exit
{before}run={run}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
[ -n "$first" ] || {{ echo "aiperf: job $SLURM_JOB_ID has no nodes; outside of Slurm unset SLURM_JOB_ID" >&2; exit 2; }}
export first
others=$((SLURM_JOB_NUM_NODES - 1))

{GPUS_OF_STEPS}
# A step on some of the nodes: one process on each, with this script's environment and all that the job was granted there.
# It replaces its shell, so that signals reach srun, which forwards them.
step() {{
  exec srun --overlap --ntasks-per-node=1 --cpu-bind=none --mem=0 --no-kill --kill-on-bad-exit=0 --export=ALL \
    ${{gres:+--gres="$gres"}}{step} "$@"
}}

# A job that may lose nodes continues without its first node and without this script (Slurm 22.05). The other nodes end it if
# the run has ended there or its head does not answer, and Slurm reports that the first node is down or does not respond.
# A node that is cut off itself ends nothing. USR1 ends the wait.
joined='trap "" USR1; "$@"; status=$?; trap "exit $status" USR1
case $status in 0 | {HEAD_LOST}) ;; *) exit "$status" ;; esac
while sleep {DOWN_SECONDS} & wait "$!"; do
  case "$status $(sinfo --noheader --nodes="$first" --format=%t)" in
    *" down"* | "{HEAD_LOST} "*\\*) {without_head} "$SLURM_JOB_ID"; exit {HEAD_LOST} ;;
  esac
done
exit "$status"'
nodes=
if [ "$others" -gt 0 ]; then
  step --nodes="$others" --ntasks="$others" --exclude="$first" bash -c "$joined" join {aiperf} join "$run" &
  nodes=$!
fi
step --nodes=1 --ntasks=1 --nodelist="$first" {aiperf} {shlex.join(submission.verb)} "$run" {shlex.join(submission.words)} &
driver=$!

# Before the time limit Slurm sends USR1: the driver is asked to close the journal and to write the report.
# A script that lost its job while its node was cut off must not end the run of the next one.
limit=
own="$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}"
echo "$own" > "$run/slurm.own"
end() {{ [ "$(cat "$run/slurm.own")" != "$own" ] || touch "$run/end-requested"; }}
trap 'limit=reached; end' USR1
trap end TERM INT
while kill -0 "$driver" 2>/dev/null; do
  wait "$driver"  # returns early for a signal
done
wait "$driver"
status=$?
[ -z "$nodes" ] || {{
  for _ in {{1..{LEAVE_SECONDS}}}; do kill -USR1 "$nodes" && sleep 1; done
  kill "$nodes"; wait "$nodes"
}} 2>/dev/null
{at_limit}exit "$status"
"""


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
    script_name: str
    folder: Path
    program: str

    def submit(self, script: Path) -> str:
        """Submit the script in the file `script` by sbatch. Return the job's id.

        Raises:
            ClusterError: sbatch is not installed or refused the job. The message is that of sbatch.
        """
        return _run("sbatch", "--parsable", str(script)).partition(";")[0]

    def run_in_allocation(self, script: Path) -> int:
        """Run the file `script` by bash in the allocation of this process, and wait for its end. Return its exit status."""
        return subprocess.run(["bash", str(script)], check=False).returncode

    def state(self, job: str) -> JobState:
        """Return the state of the job with the id `job`, by squeue. A job that squeue does not know is over.

        Raises:
            ClusterError: squeue is not installed or failed.
        """
        try:
            lines = _run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r|%N").splitlines()
        except ClusterError as error:
            if "Invalid job id" not in str(error):
                raise
            lines = []
        if not lines:
            return JobState("COMPLETED", "", "", is_over=True)
        name, reason, nodes = lines[0].split("|")
        reason = "" if reason == "None" else reason
        is_hopeless = name == "PENDING" and HOPELESS.fullmatch(reason) is not None
        return JobState(name, reason, nodes, RUNNING.fullmatch(name) is None, is_hopeless)

    def cancel(self, job: str) -> None:
        """End the job with the id `job` by scancel. Raise ClusterError if scancel is not installed or failed."""
        _run("scancel", job)

    def lines(self, job: str) -> None:
        """Return None, because the run's folder is shared and can be read on this machine."""

    def fetch(self, job: str) -> None:
        """Do nothing, because the run's folder is shared with this machine."""

    @property
    def advice(self) -> str:
        """Advice in a message about a job that can never start: options to change."""
        return "ask for what the partition allows (cluster.nodes, cluster.time, cluster.account, cluster.qos)"

    @property
    def last_output(self) -> str:
        """Path of the job's output file, quoted for a shell."""
        return shlex.quote(str(self.folder / "slurm.log"))

    @property
    def status_command(self) -> str:
        """Shell command that shows the state of the run."""
        return f"{self.program} status {shlex.quote(str(self.folder))}"


def _run(*words: str) -> str:
    """Run a program of Slurm and return its output. Raises ClusterError if it is missing or fails, with its own message."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ClusterError(
            f"+cluster=slurm needs Slurm's programs, but there is no {words[0]} here: log in to a node of the cluster, or "
            "print the batch script with cluster.submit=false"
        ) from error
    if done.returncode:
        message = re.sub(rf"^{words[0]}: (error: )?", "", done.stderr.strip(), flags=re.MULTILINE)
        reason = " | ".join(message.splitlines()) or f"status {done.returncode}"
        raise ClusterError(f"{words[0]} refused: {reason}. Change the options cluster.*, or ask the operators of Slurm")
    return done.stdout.strip()
