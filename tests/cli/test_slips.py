"""What people type who know other tools: each slip is answered with our word for it, and none with a wrong one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from aiperf.cli.arguments import VERBS
from aiperf.cli.slips import FLAGS, NO_VERB
from aiperf.config import GROUPS, as_plain, choices, configure, option_names
from aiperf.nearest import SAID_ELSEWHERE, nearest_option
from tests.cli.user import User

HINTS = """
duration schedule.duration_seconds
durationn schedule.duration_seconds
duration_seconds schedule.duration_seconds
schedule.duraton schedule.duration_seconds
schedule.duration schedule.duration_seconds
time schedule.duration_seconds
walltime schedule.duration_seconds
warmup schedule.warmup_seconds
epochs schedule.epochs
num_epochs schedule.epochs
gpus accelerators_per_worker
num_gpus accelerators_per_worker
n_gpus accelerators_per_worker
devices accelerators_per_worker
gpus_per_node cluster.gpus_per_node
workers accelerators_per_worker
workers cluster.workers
num_workers cluster.workers
nodes cluster.nodes
batch_size batch.default
batchsize batch.default
bs batch.default
batch batch.default
lr trainer.learning_rate
learning_rate trainer.learning_rate
learnig_rate trainer.learning_rate
trainer.lr trainer.learning_rate
weight_decay trainer.weight_decay
wd trainer.weight_decay
momentum trainer.momentum
optimizer trainer.momentum
precision trainer.precision
amp trainer.precision
dtype trainer.precision
fp16 trainer.precision
compile trainer.compile
threads trainer.threads
cpus trainer.threads
ranks trainer.ranks
world_size trainer.ranks
backend trainer.collective
seeds seed
sead seed
random_seed seed
names name
experiment name
output runs
outdir runs
output_dir runs
log_dir runs
model start
network start
arch start
data dataset.root
data_dir dataset.root
root dataset.root
datset dataset
image_size dataset.image
num_classes dataset.classes
algorithm searcher
seracher searcher
tuner hpo
trials limits.trials
max_trials limits.trials
checkpoint resume
resume_from resume
dryrun dry_run
dry-run dry_run
patience schedule.patience
partition cluster.partition
account cluster.account
hostfile cluster.hostfile
slurm +cluster=slurm
simulated +cluster=simulated
spares limits.spares
port metrics_port
"""
"""A slip, and what its hint must name."""
NO_HINT = ("foo", "x", "verbose", "wandb", "zzz", "hello_world", "fish", "aaaa.bbbb")
"""To which nothing of ours is near: a hint would mislead."""


@pytest.mark.parametrize("line", HINTS.split("\n")[1:-1])
def test_a_slip_is_answered_with_the_option_that_is_meant(line: str) -> None:
    slip, right = line.split()

    assert re.search(rf"(?<![\w.]){re.escape(right)}(?![\w.])", nearest_option(slip, option_names())), slip


@pytest.mark.parametrize("slip", NO_HINT)
def test_what_is_near_to_nothing_is_given_no_hint(slip: str) -> None:
    assert nearest_option(slip, option_names()) == ""


def test_every_hint_names_options_groups_and_choices_that_there_are() -> None:
    known = {*option_names(), *GROUPS}
    for hint, those in SAID_ELSEWHERE.items():
        named = re.findall(r"\+?([a-z_]+(?:\.[a-z_]+)*)=(\w*)", hint)
        assert named, hint
        for key, value in named:
            assert key in known, hint
            if key in GROUPS and value.islower():
                assert value in choices(key), hint
        assert [word for word in those if word in option_names()] == [], "an option needs no hint"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--multirun", "seed=1,2"), "cluster.repeat"),
        (("seed=1,2", "-m"), "rehearse"),
        (("--dry-run",), "dry_run=true"),
        (("--dryrun",), "dry_run=true"),
        (("--resume", "runs/a"), "write resume=runs/a"),
        (("--resume=runs/a",), "write resume=runs/a"),
        (("--workers", "4"), "cluster.workers=N"),
        (("--gpus", "4"), "accelerators_per_worker"),
        (("--seed", "3"), "write seed=3"),
        (("--name=a",), "write name=a"),
        (("--learning-rate", "0.1"), "trainer.learning_rate"),
        (("--info",), "--version"),
        (("--hydra-help",), "--help"),
        (("--config-name", "mine"), "groups and options on the command line"),
        (("-cn", "mine"), "groups and options on the command line"),
        (("--config-dir", "mine"), "groups and options on the command line"),
        (("-cd", "mine"), "groups and options on the command line"),
        (("--shell-completion", "install=bash"), "completion bash"),
        (("--package", "schedule"), "goes with --cfg job"),
        (("--resolve",), "goes with --cfg job"),
        (("--fast",), "an option is written key=value; found '--fast'"),
        (("run",), "a run needs no verb"),
        (("train", "dataset=digits"), "a run needs no verb"),
        (("version",), "--version"),
        (("dry_run",), "dry_run=true"),
        (("seed",), "did you mean 'seed=…'?"),
        (("resume", "runs/a"), "resume=RUN"),
        (("simulate",), "+cluster=simulated"),
        (("list",), "rank runs"),
        (("start=resnet50",), "did you mean 'resnet50_v1' or 'resnet50_v1_5'?"),
        (("flops", "resnet50"), "did you mean 'resnet50_v1' or 'resnet50_v1_5'?"),
        (("--cfg", "hydra"), "--cfg job"),
        (("--cfg",), "[OPTION=VALUE …] --cfg job"),
        (("--cfg", "job", "--package", "schedul"), "there is no 'schedul'"),
        (("--cfg", "job", "seed=x"), "seed is a whole number"),
    ],
)
def test_what_other_tools_take_is_answered_with_our_word(
    aiperf: User, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    answer = aiperf(*words)

    assert answer.status == 2
    assert said in answer.err
    assert answer.err.startswith("aiperf: ") and answer.err.count("\n") == 1 and "{" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_no_slip_hides_a_verb_or_an_option() -> None:
    assert not NO_VERB.keys() & VERBS.keys()
    assert not {flag.lstrip("-").replace("-", "_") for flag in FLAGS if len(flag) > 3} & (
        set(option_names()) - {"dry_run"}
    )


def test_cfg_job_shows_what_the_journal_would_hold(aiperf: User, tmp_path: Path) -> None:
    words = ("+cluster=simulated", "cluster.workers=7", "schedule=ranking", "seed=3")

    answer = aiperf(*words, "--cfg", "job")

    assert (answer.status, answer.err) == (0, "")
    assert yaml.safe_load(answer.out) == as_plain(configure(words))
    assert list(tmp_path.iterdir()) == []
    assert answer == aiperf("-c", "job", *words) == aiperf("--cfg=job", "--resolve", *words)


def test_cfg_job_shows_one_part_as_hydra_does(aiperf: User) -> None:
    answer = aiperf("--cfg", "job", "--package", "schedule")

    assert answer.out.startswith("# @package schedule\n")
    assert yaml.safe_load(answer.out) == as_plain(configure([]))["schedule"]


def test_version_names_the_program_its_sources_the_schema_and_what_it_stands_on(aiperf: User) -> None:
    answer = aiperf("--version")

    assert answer.status == 0
    said = {line.split()[0] for line in answer.out.splitlines()}
    assert {"aiperf-cluster", "sources", "journal", "python", "torch", "ray", "horovod"} <= said
