"""The words of a run: help, options that there are not, dry runs, and what can be resumed."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import msgspec
import pytest

from aiperf.cli.arguments import VERBS
from aiperf.cli.help import COMMON
from aiperf.cli.output import program
from aiperf.config import GROUPS, choices, configure, name_of_choice, option_names, schemas_of_parts
from aiperf.journal.journal import NAME
from aiperf.planning.plan import first_event, make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.simulate.session import drive, open_run, world_of
from aiperf.system.describe import describe, versions
from cluster.place import JobSubmission
from cluster.simulated import SimulatedConf
from cluster.slurm import SlurmConf
from tests.builders.journal import ended, joined, started
from tests.rigs.user import User, write_run

TINY = (
    "+cluster=simulated",
    *("cluster.workers=8", "cluster.accelerators=1", "cluster.flops=2e9", "cluster.join_seconds=2"),
    *("cluster.compile_seconds=1", "cluster.build_seconds=0.5"),
    *("dataset=synthetic", "dataset.image=8", "dataset.channels=1", "dataset.training_images=400"),
    *("dataset.validation_images=100", "start=digits_small", "budget.batch=8", "searcher=random", "hpo=off"),
    *("schedule.duration_seconds=600", "schedule.warmup_seconds=100", "schedule.epochs=[2]"),
)
"""A simulated run of hundreds of trials in a second."""
SET_BY_THE_CHOICE = {"benchmark.name", "dataset.name", "searcher.name", "hpo.name", "cluster.kind"}


def test_help_is_one_screen_with_every_verb(aiperf: User) -> None:
    answer = aiperf("--help")

    assert answer.status == 0
    assert len(answer.out.splitlines()) <= 60
    assert max(map(len, answer.out.splitlines())) <= 110
    assert [verb for verb in VERBS if f"\n    {verb} " not in answer.out] == []
    assert len(COMMON) == 12 and "help options" in answer.out
    assert [
        choice for group in ("dataset", "schedule", "cluster") for choice in choices(group) if choice not in answer.out
    ] == []


def test_help_shows_the_defaults_of_the_default_run(aiperf: User) -> None:
    """The file of a default choice changes the defaults of classes."""
    for shown, conf in (("--help",), configure([])), (("help", "options"), configure([])):
        message = aiperf(*shown).out
        assert f"schedule.duration_seconds={conf.schedule.duration_seconds:g} " in message
    assert f"budget.factor={conf.budget.factor:g} " in message
    assert f"batch.smallest={conf.batch.smallest} " in message
    assert "schedule=quick: 180; schedule=ranking: 43200; else " in aiperf("help", "schedule.duration_seconds").out


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("seed", "seed=0  (whole number; at least 0)"),
        ("trainer.momentum", "between 0 and 0.9999"),
        ("schedule", "schedule.patience=3"),
        ("trainer", "trainer.precision=auto"),
        ("+cluster=slurm", "cluster.partition=null"),
        ("cluster", "cluster (ray): "),
        ("dataset.root", "with dataset=images, dataset=cifar10, dataset=imagenet, dataset=weather, dataset=tokens:"),
    ],
)
def test_help_of_an_option_or_group_shows_its_limits(aiperf: User, name: str, shown: str) -> None:
    answer = aiperf("help", name)

    assert answer.status == 0 and shown in answer.out
    assert "limits.trials" not in answer.out


@pytest.mark.parametrize(
    ("name", "near"),
    [("scor", "'score'"), ("trainer.momentun", "'trainer.momentum'"), ("schedul", "'schedule'"), ("xyzzy", "")],
)
def test_help_of_an_unknown_name_names_the_nearest(aiperf: User, name: str, near: str) -> None:
    answer = aiperf("help", name)

    assert answer.status == 2 and answer.out == ""
    assert answer.err.count("\n") == 1 and ("did you mean" in answer.err) == bool(near) and near in answer.err


def test_help_options_names_every_group_choice_and_option(aiperf: User) -> None:
    answer = aiperf("help", "options")

    assert answer.status == 0
    message = answer.out.split()
    assert [choice for group in GROUPS for choice in choices(group) if choice not in answer.out] == []
    shown = {word.split("=")[0] for word in message if "=" in word}
    assert "trainer.channels_last=true" in message and "limits.trials=null" in message
    assert "Conf(" not in answer.out
    assert [option for option in option_names() if option not in shown | SET_BY_THE_CHOICE | set(GROUPS)] == []


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_has_the_same_form(aiperf: User, verb: str) -> None:
    answer = aiperf(verb, "--help")

    assert answer.status == 0
    assert answer.out.startswith(f"usage: python -m aiperf {verb}")
    assert f"\nexamples:\n  python -m aiperf {verb}" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 110
    assert answer == aiperf(verb, "-h") == aiperf("help", verb)


def test_help_shows_each_choice_with_all_its_options(aiperf: User) -> None:
    message = aiperf("help", "options").out

    for part, schemas in schemas_of_parts().items():
        for schema in schemas if len(schemas) > 1 else ():
            own = message.partition(f"\n{part} ({name_of_choice(schema)}): ")[2].partition("\n\n")[0]
            for name in inspect.get_annotations(schema).keys() - {
                "name",
                "kind",
                "module",
                "usual_start",
                "quick_epochs",
                "files",
            }:
                assert f"\n  {part}.{name}=" in own, (part, schema, name)


def test_help_may_follow_options(aiperf: User) -> None:
    assert aiperf("dataset=digits", "--help") == aiperf("--help") == aiperf("help")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("flops", "resnet20", "--jsno"), "flops has no argument '--jsno' (did you mean '--json'?)"),
        (("flops", "resnet20", "resnet18"), "flops has no argument 'resnet18'"),
        (
            ("flops", "resnet20", "--batch", "0"),
            "--batch is a whole number and is between 1 and 1000000000, but found '0'",
        ),
        (
            ("flops", "resnet20", "--batch", "many"),
            "--batch is a whole number and is between 1 and 1000000000, but found",
        ),
        (("score",), "RUN. `python -m aiperf score --help` lists the arguments"),
        (("report", "nowhere", "seed=1"), "report has no argument 'seed=1'"),
        (("prepare",), "prepare needs a data set. Give dataset=NAME"),
        (("prepare", "dataset=digits", "--pck", "x"), "prepare has no argument '--pck' (did you mean '--pack'?)"),
        (("prepare", "--pack"), "--pack: expected one argument"),
        (("prepare", "dataset=digits", "--pack", "x"), "only image files can be packed"),
        (("rehearse", "cluster.workerz=3"), "did you mean 'cluster.workers'?"),
        (("rehearse", "--fast"), "rehearse has no argument '--fast'"),
    ],
)
def test_unknown_arguments_of_a_verb_are_refused(
    aiperf: User, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    answer = aiperf(*words)

    assert answer.status == 2
    assert answer.err.startswith("aiperf: ") and message in answer.err
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("schedule.duration_secondz=4", "did you mean 'schedule.duration_seconds'?"),
        ("shedule.warmup_seconds=4", "did you mean 'schedule.warmup_seconds'?"),
        ("dryrun=true", "did you mean 'dry_run'?"),
        ("datset=digits", "did you mean 'dataset'?"),
        ("dataset=digitz", "did you mean 'digits'?"),
        ("searcher=morphsm", "did you mean 'morphism'?"),
        ("schedule=quik", "did you mean 'quick'?"),
        ("+cluster=simulatd", "did you mean 'simulated'?"),
        ("start=resnet2", "did you mean 'resnet20'?"),
        ("flopz", "did you mean 'flops'?"),
        ("reprot", "did you mean 'report'?"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_nearest_right_one(
    aiperf: User, tmp_path: Path, word: str, right: str
) -> None:
    answer = aiperf(word)

    assert answer.status == 2
    assert answer.err.startswith("aiperf: ")
    assert right in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("seed=x",), "seed"),
        (("schedule.duration_seconds=soon",), "schedule.duration_seconds"),
        (("trainer.collective=mpi",), "trainer.collective is one of auto, horovod, torch, none, but found 'mpi'"),
        (("schedule.warmup_seconds=180",), "a valid window lies between warm-up and end"),
        (("schedule.epochs=[]",), "schedule.epochs"),
        (("executor=slurm",), "executor is one of ray, inline, but found 'slurm'"),
        (("name=a/b",), "name is part of a folder's name"),
        (("batch.smallest=0",), "batch.smallest is between 1 and 8192"),
        (("dataset.root=/data",), "dataset.root goes with dataset=images, dataset=cifar10, dataset=imagenet"),
        (("dataset=images",), "dataset.root=FOLDER (nothing is downloaded)"),
        (("cluster.workers=4",), "add +cluster=hosts|kubernetes|ray|simulated|slurm"),
        (("cluster=simulated",), "+cluster=simulated"),
        (("seed=1", "seed"), "did you mean 'seed=…'?"),
        (("--fast",), "an option is written key=value, but found '--fast'"),
        (("resume_until=3",), "It needs resume=RUN"),
        (("limits.spares=-1",), "limits.spares is between 0 and 100, but found -1"),
        (("seed=1", "seed=2"), "seed is given by seed=1 and by seed=2: leave one out"),
        (("dataset=digits", "dataset=synthetic"), "dataset is given by dataset=digits and by"),
        (("searcher=random", "searcher.morphs=0"), "searcher.morphs is between 1 and 100, but found 0"),
        (("searcher.beta=-1", "dry_run=true"), "searcher.beta is between 0 and 1000, but found -1.0"),
        (("hpo.candidates=0",), "hpo.candidates is between 1 and 100000, but found 0"),
    ],
)
def test_invalid_options_are_refused_before_anything_starts(
    aiperf: User, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    answer = aiperf(*words)

    assert answer.status == 2
    assert message in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_prints_the_plan_and_creates_nothing(aiperf: User, tmp_path: Path) -> None:
    answer = aiperf("dry_run=true")

    rows = {line[:13].strip(): line[13:] for line in answer.out.splitlines()}
    assert answer.status == 0
    set_up = ["set up for"] if Path(sys.prefix, ".device").exists() else []  # by `make setup`
    assert [name for name in rows if name] == [
        "data set", "time", "workers", "a worker", "planned for", *set_up, "first graph", "an epoch", "budget", "search",
        "disk"
    ]  # fmt: skip
    assert rows["data set"].startswith("digits: 1\u202f437 training and 360 validation images, 8×8×1, 10 classes")
    assert rows["time"] == "3 min 00 s, the first 20 s warm-up"
    assert rows["first graph"].startswith("digits_small: ")
    assert rows["planned for"].endswith(f"(this machine, {describe().host})")
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_plans_disk_for_the_checkpoints_of_a_run(aiperf: User, tmp_path: Path) -> None:
    conf = configure([*TINY, "budget.factor=1.3"])  # so that some trials can grow no more
    opening = open_run(conf)
    kept: list[int] = []
    drive(world_of(opening), opening.first, tmp_path / NAME, lambda driver: kept.append(len(driver.run.retained)))

    disk = aiperf("dry_run=true").out.partition("disk ")[2]

    assert f"({max(kept)} kept)" in disk
    assert disk.rstrip().endswith("as networks grow; checkpoints of trials in training are additional")


def test_a_dry_run_of_another_schedule_and_start_shows_theirs(aiperf: User) -> None:
    shown = aiperf(
        "dry_run=true", "schedule=ranking", "dataset=synthetic", "dataset.image=224", "start=resnet50_v1"
    ).out

    assert "12 h 00 min, the first 1 h 00 min warm-up" in shown
    assert "rounds of 15, 30, 45, 60 epochs" in shown
    assert "7.80 GFLOP forward" in shown


def test_a_simulated_cluster_uses_imagenet_by_default() -> None:
    assert configure(["+cluster=simulated"]).dataset.name == "imagenet"
    assert configure(["+cluster=simulated", "dataset=cifar10"]).dataset.name == "cifar10"
    assert configure(["+cluster=simulated", "cluster.workers=3"]).cluster == SimulatedConf(workers=3)


def test_a_dry_run_of_a_simulated_cluster_creates_nothing_either(aiperf: User, tmp_path: Path) -> None:
    answer = aiperf("dry_run=true", "+cluster=simulated", "cluster.workers=4096", "cluster.accelerators=8")

    rows = {line[:13].strip(): line[13:] for line in answer.out.splitlines()}
    assert answer.status == 0
    assert rows["workers"] == "4096, simulated"
    assert rows["a worker"].startswith("8 accelerators, 8 ranks")
    assert list(tmp_path.iterdir()) == []


def test_a_simulated_run_prints_plan_progress_and_result(aiperf: User, tmp_path: Path) -> None:
    hour = ("schedule.duration_seconds=3600", "schedule.warmup_seconds=600")
    answer = aiperf("+cluster=simulated", "cluster.workers=2", "searcher=random", "hpo=off", *hour)

    plan, _, rest = answer.out.partition("a journal and a report. Nothing is trained")
    assert answer.status == 0
    assert "2, simulated" in plan
    assert "left · simulated score" in rest.splitlines()[1]
    assert "simulated 1 h 00 min in" in rest and "no such run is ever ranked" in rest
    assert len(list((tmp_path / "runs").glob("*/journal.jsonl"))) == 1


def test_a_resumed_run_takes_no_other_options(aiperf: User, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "half", [started()])

    answer = aiperf("resume=half", "seed=3", "searcher=random")

    assert answer.status == 2
    assert "a resumed run keeps its configuration: leave seed=3, searcher=random out" in answer.err


def test_a_run_that_is_nowhere_cannot_be_resumed(aiperf: User, tmp_path: Path) -> None:
    answer = aiperf("resume=nowhere")

    assert answer.status == 2
    assert "There is none at 'nowhere'" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_simulated_run_cannot_be_resumed_on_machines(aiperf: User, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "invented", [started(simulated=True)])

    answer = aiperf("resume=invented")

    assert answer.status == 2
    assert "is a simulated run, which cannot be resumed" in answer.err


def test_a_run_with_other_proposal_rules_cannot_be_resumed(aiperf: User, tmp_path: Path) -> None:
    conf = configure(["executor=inline"])
    first = first_event(make_plan(conf, this_machine(conf)), "old", 1_000_000.0, versions=versions())
    earlier = msgspec.structs.replace(first, proposal_rules=3)
    journal = write_run(tmp_path / "runs" / "old", [earlier]) / "journal.jsonl"
    before = journal.read_bytes()

    answer = aiperf("resume=old")

    assert answer.status == 2
    assert f"The run 'old' was made by version {earlier.proposal_rules}" in answer.err
    assert f"Install the aiperf of that run (aiperf-cluster {first.versions['aiperf-cluster']}" in answer.err
    assert journal.read_bytes() == before


def test_a_run_whose_time_is_over_cannot_be_resumed(aiperf: User, tmp_path: Path) -> None:
    conf = configure(["executor=inline"])
    first = first_event(make_plan(conf, this_machine(conf)), "over", 1_000_000.0)
    journal = write_run(tmp_path / "runs" / "over", [first, ended(180.0)]) / "journal.jsonl"
    before = journal.read_bytes()

    answer = aiperf("resume=over")

    assert answer.status == 2
    assert "its declared 180 s are over" in answer.err
    assert journal.read_bytes() == before


@pytest.mark.parametrize("called", ["aiperf-cluster", "python -m aiperf"])
def test_printed_commands_begin_like_the_users_command(
    aiperf: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    monkeypatch.setattr(
        sys, "argv", [f"{sys.prefix}/bin/{called}" if called == "aiperf-cluster" else "/x/aiperf/__main__.py"]
    )
    write_run(tmp_path / "runs" / "young", [started(), joined()])
    submission = JobSubmission("aiperf-x", tmp_path / "x", [], 60.0, "/usr/bin/python3", tmp_path, program=program())

    outputs = [aiperf(*words).out for words in (["score", "young"], ["check", "young", "--division", "quick"])]

    assert all(called in text for text in outputs)
    assert called == "python -m aiperf" or not any("python -m aiperf" in text for text in outputs)
    job = SlurmConf(nodes=2).job(submission)
    assert job.status_command == f"{called} status {tmp_path / 'x'}"
    assert f"# Written by: {called} " in job.script
