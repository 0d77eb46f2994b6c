"""Slurm as sites run it: outputs of several releases, several clusters, arrays, containers, allocations of other forms.

Outputs are written anew in the documented form. Whole scripts run with stand-ins of Slurm's programs on PATH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.cli import batch
from aiperf.errors import BadConfiguration
from aiperf.planning.worker_shape import require_owned
from aiperf.system.control_groups import ControlGroupLimits, usable_processors
from aiperf.system.describe import HostDescription
from cluster.hosts import HostsConf, expanded
from cluster.place import ClusterError, JobSubmission, UnknownJob
from cluster.slurm import SlurmConf, SlurmJob, batch_script
from tests.rigs.namespaces import REPOSITORY

JOB = (
    "JobId=4242 JobName=aiperf UserId=u(1000) NumNodes=2 NumCPUs=128 ReqTRES=cpu=2,mem=1000G,node=2 AllocTRES=cpu=128,node=2,"
    "gres/gpu=16 JOB_GRES=gpu:h100:16 {nodes} MinCPUsNode=1 OverSubscribe=NO Command=/x/slurm.sh {more}"
)
ALIKE = "Nodes=n[001-002] CPU_IDs=0-63 Mem=0 GRES=gpu:h100:8(IDX:0-7)"
TYPED = "gpu:h100:8"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A login node: an empty working directory, and stand-ins in its folder bin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(batch, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(batch, "STEADY_SECONDS", 0.01)
    (tmp_path / "bin").mkdir()
    return tmp_path


def offers(here: Path, program: str, script: str) -> None:
    path = here / "bin" / program
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def script_of(here: Path, conf: SlurmConf, details: str = JOB.format(nodes=ALIKE, more="")) -> Path:
    """Write the batch script of a run on two nodes, with stand-ins that record their arguments in the file calls."""
    (here / "run").mkdir()
    (here / "details").write_text(details)
    offers(
        here,
        "scontrol",
        'echo scontrol "$@" >> calls; [[ $* = *hostnames* ]] && printf "n001\\nn002\\n" || cat details',
    )
    offers(here, "srun", 'echo srun "$@" >> calls; sleep 0.3')
    submission = JobSubmission("aiperf-run", here / "run", ["seed=1"], 60.0, "/opt/login/bin/python", here)
    script = here / "slurm.sh"
    script.write_text(batch_script(conf, submission).replace("{1..15}", "1"))
    return script


def done(here: Path, script: Path, **variables: str) -> tuple[int, list[str]]:
    """Return the status of a script in a job, and the calls of Slurm's programs."""
    ended = subprocess.run(["bash", str(script)], env=job_environment(variables), check=False, timeout=60)
    return ended.returncode, (here / "calls").read_text().splitlines()


def job_environment(variables: Mapping[str, str]) -> dict[str, str]:
    own = {"SLURM_JOB_ID": "4242", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[001-002]"}
    return {"PATH": os.environ["PATH"], **own, **variables}


def gres_of(calls: list[str]) -> set[str]:
    steps = [call for call in calls if call.startswith("srun ")]
    assert len(steps) == 2
    return {word.partition("=")[2] for call in steps for word in call.split() if word.startswith("--gres=")}


@pytest.mark.parametrize(
    ("more", "gres"),
    [
        ("", TYPED),  # whole nodes
        ("TresPerTask=cpu=64", TYPED),  # 23.11 and later for --cpus-per-task
        ("TresPerTask=cpu:64", TYPED),  # 23.02
        ("TresPerNode=gpu:8", "gpu:8"),  # 19.05
        ("TresPerNode=gres:gpu:8", "gpu:8"),  # 20.02 to 23.02
        ("TresPerNode=gres/gpu:8", "gpu:8"),  # 23.11 and later
        ("TresPerTask=cpu=8,gres/gpu=1", "gpu:8"),
        ("TresPerJob=gres:gpu:16", "gpu:8"),
        ("TresPerNode=gres/gpu:h100:8", TYPED),
        ("TresPerNode=gres:gpu:1g.10gb:8", TYPED),
        ("TresPerNode=gres/craynetwork:1", TYPED),
    ],
)
def test_steps_name_the_gpus_of_their_node(here: Path, more: str, gres: str) -> None:
    status, calls = done(here, script_of(here, SlurmConf(nodes=2), JOB.format(nodes=ALIKE, more=more)))

    assert status == 0
    assert gres_of(calls) == {gres}


@pytest.mark.parametrize(
    ("nodes", "gres"),
    [
        ("Nodes=n001 GRES=gpu:h100:8(IDX:0-7) Nodes=n002 GRES=gpu:h100:8(IDX:0-3,5-8)", {TYPED}),
        ("Nodes=n[001-002] GRES=gres:gpu:a:2(IDX:0-1),gpu:b:1(IDX:2),nic:1(IDX:0)", {"gpu:a:2,gpu:b:1"}),
        ("Nodes=n[001-002] GRES=nic:1(IDX:0)", set()),
        ("Nodes=n[001-002] GRES=", set()),
    ],
)
def test_gpus_of_nodes_are_read_in_every_form(here: Path, nodes: str, gres: set[str]) -> None:
    status, calls = done(here, script_of(here, SlurmConf(nodes=2), JOB.format(nodes=nodes, more="")))

    assert status == 0
    assert gres_of(calls) == gres


def test_nodes_with_unequal_gpus_are_refused(here: Path) -> None:
    nodes = "Nodes=n001 GRES=gpu:h100:8(IDX:0-7) Nodes=n002 GRES=gpu:h100:7(IDX:0-6)"

    status, calls = done(here, script_of(here, SlurmConf(nodes=2), JOB.format(nodes=nodes, more="")))

    assert status == 2
    assert not [call for call in calls if call.startswith("srun")]


def test_steps_take_no_options_of_another_allocation(here: Path) -> None:
    names = ("GPUS", "GPUS_PER_TASK", "NTASKS", "NTASKS_PER_NODE", "NPROCS", "CPUS_PER_TASK", "MEM_PER_CPU", "GPU_BIND")
    left = {**{f"SLURM_{name}": "3" for name in names}, "SRUN_CPUS_PER_TASK": "3"}
    script = script_of(here, SlurmConf(nodes=2))
    offers(here, "srun", "env >> calls; echo >> calls")

    _, calls = done(here, script, **left, SLURM_CLUSTERS="a,b", SLURMD_NODENAME="n001")

    assert "AIPERF_GPUS=gpu:h100:8" in calls
    assert not {call.partition("=")[0] for call in calls} & {*left, "SLURM_CLUSTERS"}


def test_no_selected_gpu_is_a_run_on_processors(here: Path) -> None:
    _, calls = done(here, script_of(here, SlurmConf(nodes=2, setup=["export CUDA_VISIBLE_DEVICES="])))

    assert gres_of(calls) == {"none"}
    assert " ".join(calls).count("env CUDA_VISIBLE_DEVICES= /opt/login/bin/python -m aiperf") == 2


def test_a_task_of_an_array_names_itself_alone(here: Path) -> None:
    script = script_of(here, SlurmConf(nodes=2, requeue=True))
    until_requeued = "for _ in {1..200}; do ! grep -q requeue calls || break; sleep 0.05; done"
    offers(here, "srun", f'[[ $* = *drive* ]] && kill -USR1 "$PPID"; {until_requeued}')  # the time limit is near

    _, calls = done(here, script, SLURM_ARRAY_JOB_ID="4242", SLURM_ARRAY_TASK_ID="5")

    assert calls[1:] == ["scontrol --oneliner --details show job 4242_5", "scontrol requeue 4242_5"]


@pytest.mark.parametrize("is_owned", [True, False])
def test_only_the_owner_signals_the_other_nodes(here: Path, is_owned: bool) -> None:
    """A requeued job has the id, and its steps have the ids, of the job that lost its first node."""
    script = script_of(here, SlurmConf(nodes=2))
    offers(
        here,
        "srun",
        'if [[ $* = *drive* ]]; then sleep 1; [ -z "$OTHER" ] || echo "$OTHER" > run/slurm.own; exit; fi\n'
        'trap "echo USR1 >> signals" USR1; trap "echo TERM >> signals; exit" TERM; while :; do sleep 0.1; done',
    )
    (here / "calls").touch()

    done(here, script, OTHER="" if is_owned else "4242.1")

    signals = (here / "signals").read_text().split() if (here / "signals").exists() else []
    assert signals == (["USR1", "TERM"] if is_owned else [])


@pytest.mark.parametrize(
    ("conf", "python"),
    [
        (SlurmConf(nodes=2), "/opt/login/bin/python"),
        (SlurmConf(nodes=2, python="/opt/node/bin/python"), "/opt/node/bin/python"),
        (SlurmConf(nodes=2, container="i", container_runtime="apptainer"), "python"),
        (SlurmConf(nodes=2, container="i", container_runtime="pyxis", python="/usr/bin/python3"), "/usr/bin/python3"),
    ],
)
def test_a_container_runs_its_own_interpreter(here: Path, conf: SlurmConf, python: str) -> None:
    _, calls = done(here, script_of(here, conf))

    assert f" {python} -m aiperf drive {here}/run seed=1" in " ".join(calls)
    assert f" {python} -m aiperf join {here}/run" in " ".join(calls)


def test_pyxis_leaves_the_watching_shell_outside(here: Path) -> None:
    """The stand-in srun starts the command. In a container there are no programs of Slurm."""
    script = script_of(here, SlurmConf(nodes=2, container="i"))
    offers(
        here,
        "python",
        'echo "in=$IN $*" >> seen; [[ $* != *join* ]] || exit 3; '
        "for _ in {1..99}; do ! grep -q scancel seen || exit 0; /bin/sleep 0.1; done",
    )
    offers(here, "sinfo", 'echo "sinfo in=$IN" >> seen; echo "down*"')
    offers(here, "scancel", 'echo "scancel in=$IN $*" >> seen')
    offers(here, "sleep", "exec /bin/sleep 0.1")
    offers(
        here,
        "srun",
        "while [[ $1 = --* ]]; do [[ $1 != --container-image=i ]] || export IN=i; [[ $1 != --nodelist=* ]] || "
        'export SLURMD_NODENAME=${1#*=}; shift; done\nexec "$@"',
    )
    (here / "calls").touch()

    done(here, script, SLURMD_NODENAME="n002")

    seen = set((here / "seen").read_text().splitlines())
    assert {"in=i -m aiperf join " + str(here / "run"), "sinfo in=", "scancel in= 4242"} <= seen


STATES = {
    "goes on": """
        COMPLETING CONFIGURING EXPEDITING PENDING POWER_UP_NODE REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD
        RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED UPDATE_DB
    """,
    "over": """
        BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED LAUNCH_FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED RECONFIG_FAIL
        REVOKED TIMEOUT
    """,
}
REASONS = {
    "goes on": """
        None Priority Resources Dependency Licenses BeginTime Reservation ReqNodeNotAvail PartitionDown
        PartitionInactive NodeDown JobArrayTaskLimit QOSMaxJobsPerUserLimit QOSMaxNodePerUserLimit QOSMaxGRESPerUser
        QOSGrpGRES AssocGrpGRESMinutes AssocMaxJobsLimit QOSUsageThreshold QOSResourceLimit AssocGrpNodeLimit Prolog
        BurstBufferStageIn FedJobLock Cleaning
    """,
    "needs the user": """
        JobHeldAdmin JobHeldUser JobHoldMaxRequeue launch_failed_requeued_held
    """,
    "hopeless": """
        AccountNotAllowed AssociationTimeLimit BadConstraints DeadLine DependencyNeverSatisfied InvalidAccount
        InvalidQOS MaxMemPerLimit PartitionConfig PartitionNodeLimit PartitionTimeLimit QOSNotAllowed QOSTimeLimit
        QOSMinCpuNotSatisfied QOSMinGRES QOSMinMemory QOSMinNode QOSMinBilling QOSMaxCpuPerJobLimit
        QOSMaxCpuMinutesPerJobLimit QOSMaxNodePerJobLimit QOSMaxWallDurationPerJobLimit QOSMaxGRESPerJob
        QOSMaxGRESPerNode QOSMaxMemPerNode QOSMaxNodeMinutesPerJob AssocMaxCpuPerJobLimit AssocMaxCpuMinutesPerJobLimit
        AssocMaxNodePerJobLimit AssocMaxWallDurationPerJobLimit AssocMaxGRESPerJob AssocMaxGRESMinutesPerJob
        AssocMaxCpuPerNode AssocMaxBBPerJob AssocMaxBillingPerJob
    """,
}


def state_of(here: Path, line: str, job: str = "7") -> tuple[str, str]:
    offers(here, "squeue", f"cat <<'END'\n{line}\nEND")
    state = SlurmJob("", here, "aiperf").state(job)
    needs_the_user = f"scontrol release {job}" in state.reason
    names = (
        (state.is_over, "over"),
        (state.is_hopeless, "hopeless"),
        (needs_the_user, "needs the user"),
        (True, "goes on"),
    )
    return next(name for is_so, name in names if is_so), state.reason


@pytest.mark.parametrize(
    ("wanted", "state"), [(wanted, state) for wanted, words in STATES.items() for state in words.split()]
)
def test_a_job_is_over_in_its_last_states_only(here: Path, wanted: str, state: str) -> None:
    found, _ = state_of(here, f"{state}|None|n[1-2]")

    assert found == ("needs the user" if state in ("REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT") else wanted)


@pytest.mark.parametrize(
    ("wanted", "reason"), [(wanted, each) for wanted, words in REASONS.items() for each in words.split()]
)
def test_reasons_that_cannot_end_are_hopeless(here: Path, wanted: str, reason: str) -> None:
    found, said = state_of(here, f"PENDING|{reason}|")

    assert found == wanted
    assert reason == "None" or reason in said


def test_a_reason_may_be_a_sentence_with_bars(here: Path) -> None:
    reason = "Nodes required for job are DOWN, DRAINED | reserved for jobs in higher priority partitions"

    assert state_of(here, f"PENDING|{reason}|") == ("goes on", reason)


def test_every_query_names_the_cluster_that_took_the_job(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offers(
        here,
        "sbatch",
        "echo 'Welcome to the 3 clusters of 2026'; echo '4242;inter'; echo; echo 'LC_ALL='$LC_ALL > sbatch.env",
    )
    offers(
        here,
        "squeue",
        'echo squeue "$@" >> calls; echo "CLUSTER: inter"; [[ $* = *--clusters=inter*--jobs=4242* ]] || exit 1\n'
        '[ -e ran ] || { : > ran; echo "RUNNING|None|n001"; exit; }\necho "FAILED|NonZeroExitCode|n001"',
    )

    assert main(["+cluster=slurm", "cluster.nodes=2", 'cluster.extra=["--clusters=inter"]', "dataset=synthetic"]) == 2

    said = capsys.readouterr()
    assert "job 4242;inter: running on n001" in said.out
    assert "job 4242;inter: failed on n001 (NonZeroExitCode)" in said.out
    assert "4242;inter" in next((here / "runs").glob("*/job.json")).read_text()
    assert (here / "sbatch.env").read_text() == f"LC_ALL={os.environ.get('LC_ALL', '')}\n"


@pytest.mark.parametrize("printed", ["", "Welcome to cluster 7", "12 jobs are waiting", "job 4242"])
def test_a_greeting_is_no_job_number(here: Path, printed: str) -> None:
    offers(here, "sbatch", f"echo '{printed}'")

    with pytest.raises(ClusterError, match="sbatch printed no job id"):
        SlurmJob("", here, "aiperf").submit(here / "s")


def test_a_job_unknown_at_its_first_look_has_not_ended(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "SILENT_SECONDS", 0.5)
    offers(here, "sbatch", "echo 4242")
    offers(here, "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")

    assert main(["+cluster=slurm", "dataset=synthetic"]) == 2

    said = capsys.readouterr()
    assert "completed" not in said.out + said.err
    assert "may continue: squeue does not know job 4242" in said.err
    with pytest.raises(UnknownJob):
        SlurmJob("", here, "aiperf").state("4242")


def test_squeue_is_asked_every_half_minute_once_a_job_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(batch, "LOOK_SECONDS", 2.0)
    monkeypatch.setattr(batch, "STEADY_SECONDS", 30.0)
    monkeypatch.setattr(time, "sleep", slept.append)
    offers(here, "sbatch", "echo 7")
    lines = ["PENDING|Priority|", "PENDING|Priority|", "RUNNING|None|n1", "RUNNING|None|n1", "FAILED|None|n1"]
    offers(here, "squeue", 'echo >> asked; sed -n "$(wc -l < asked)p" answers')
    (here / "answers").write_text("\n".join(lines))

    assert main(["+cluster=slurm", "dataset=synthetic"]) == 2

    assert [seconds for seconds in slept if seconds >= 2] == [2.0, 2.0, 30.0, 30.0]


def test_progress_is_the_last_line_of_the_jobs_output(here: Path) -> None:
    job = SlurmJob("", here, "aiperf")
    assert [*job.lines("7")] == []

    (here / "slurm.log").write_bytes(b"x" * 100_000 + "\n12 min left · score 4 TFLOPS\n".encode())

    assert [*job.lines("7")] == ["12 min left · score 4 TFLOPS"]


@pytest.mark.parametrize("times", [1, 2])
def test_the_script_of_an_allocation_is_awaited(tmp_path: Path, times: int) -> None:
    """The first Ctrl-C asks for an end with a report, the second one ends at once."""
    (tmp_path / "script").write_text(
        'trap "echo asked >> said; asked=\\$((asked + 1))" TERM\n: > up\n'
        'for _ in {1..60}; do sleep 0.1; [ "${asked:-0}" -lt 2 ] || exit 9; done; echo report >> said; exit 5'
    )
    waits = (
        "import sys; from pathlib import Path; from aiperf.cli.batch import run_in_allocation; "
        "sys.exit(run_in_allocation(Path('script')))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", waits], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
    )
    while not (tmp_path / "up").exists():
        time.sleep(0.05)

    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)

    assert process.wait(30) == {1: 5, 2: 9}[times]
    said = (tmp_path / "said").read_text().split()
    assert said == {1: ["asked", "report"], 2: ["asked", "asked"]}[times]


@pytest.mark.parametrize(
    ("word", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[001-003,007]", ["n001", "n002", "n003", "n007"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("me@r[1-2]n[01-02]-ib", ["me@r1n01-ib", "me@r1n02-ib", "me@r2n01-ib", "me@r2n02-ib"]),
        ("n[1-2],m3", ["n1", "n2", "m3"]),
        ("[::1]", ["[::1]"]),
        ("fe80::1%eth0", ["fe80::1%eth0"]),
    ],
)
def test_lists_of_hosts_are_expanded_as_slurm_does(word: str, hosts: list[str]) -> None:
    conf = HostsConf(hosts=[word])
    conf.check()

    assert expanded(word) == hosts
    assert conf.place({}).hosts == tuple(hosts)
    assert conf.requested_nodes().nodes == len(hosts)


@pytest.mark.parametrize(
    "word", ["n[3-1]", "n[1-]", "n[a-b]", "n[1-9999999]", "n[1-999999]x[1-999999]", "n[1-2", "n1,", "n[]"]
)
def test_lists_that_are_none_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="but found"):
        HostsConf(hosts=[word]).check()


@pytest.mark.parametrize("word", ["n1:8", "me@n1:22", "n[1-2]:8"])
def test_slots_or_ports_of_hosts_are_refused_with_the_form(word: str) -> None:
    with pytest.raises(ValueError, match=r"write .*n1\. A port of ssh is cluster.ssh=\[-p,PORT\]"):
        HostsConf(hosts=[word]).check()


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_JOB_GPUS": "0,1"},
        {"SLURM_STEP_GPUS": "3"},
        {"SLURM_GPUS_ON_NODE": "8", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"},
        {"AIPERF_GPUS": "gpu:h100:8"},
        {"AIPERF_GPUS": "8", "CUDA_VISIBLE_DEVICES": "NoDevFiles"},
        {"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"},
    ],
)
def test_a_job_that_owns_unseen_gpus_is_refused(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    system = host()

    with pytest.raises(
        BadConfiguration, match=r"found 0 usable \(nvml: no driver.*CUDA_VISIBLE_DEVICES= to train on processors"
    ):
        require_owned(system, variables)
    require_owned(system, variables | {"CUDA_VISIBLE_DEVICES": ""})
    require_owned(system, {"AIPERF_GPUS": "", "SLURM_JOB_ID": "7"})


def host() -> HostDescription:
    """This machine, without accelerators."""
    import msgspec

    from aiperf.system.describe import describe_usable

    return msgspec.structs.replace(
        describe_usable(), accelerators=(), not_sampled={"nvml": "no driver"}, versions={"torch": "2.13.0"}
    )


def test_a_run_in_a_job_names_its_unseen_gpus(tmp_path: Path) -> None:
    def planned(**variables: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "aiperf", "dry_run=true", "dataset=synthetic"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **variables}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    refused = planned(SLURM_JOB_ID="7", SLURM_JOB_GPUS="0,1")

    assert refused.returncode == 2
    assert "the accelerators that its job owns, 2 on " in refused.stderr
    assert planned(SLURM_JOB_ID="7", SLURM_JOB_GPUS="0,1", CUDA_VISIBLE_DEVICES="").returncode == 0


def test_a_job_on_a_shared_node_uses_its_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    free = ControlGroupLimits()
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "16")
    assert usable_processors(free) == 64, "outside of a job"

    monkeypatch.setenv("SLURM_JOB_ID", "7")

    assert usable_processors(free) == 16
    assert usable_processors(ControlGroupLimits(processors=2.5)) == 2


def test_modules_are_loaded_where_the_shell_exports_none(here: Path) -> None:
    """The line of docs/clusters.md, with a stand-in of the site's file."""
    (here / "modules.sh").write_text('module() { export LOADED="$*"; }\n')
    script = script_of(here, SlurmConf(nodes=2, setup=[f". {here}/modules.sh", "module load cuda/12.6"]))
    offers(here, "srun", 'echo "loaded=$LOADED" >> calls')

    status, calls = done(here, script)

    assert status == 0
    assert calls.count("loaded=load cuda/12.6") == 2
