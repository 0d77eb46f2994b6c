"""Common mistakes of users of other tools. Each message names the right word, and none a wrong one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from aiperf.config import as_plain, configure, option_names
from aiperf.nearest import nearest_option
from tests.rigs.user import User

HINTS = """
duration_seconds schedule.duration_seconds
schedule.duraton schedule.duration_seconds
schedule.duration schedule.duration_seconds
gpus_per_node cluster.gpus_per_node
learning_rate trainer.learning_rate
learnig_rate trainer.learning_rate
weight_decay trainer.weight_decay
momentum trainer.momentum
precision trainer.precision
compile trainer.compile
threads trainer.threads
ranks trainer.ranks
seeds seed
sead seed
names name
root dataset.root
datset dataset
seracher searcher
trials limits.trials
dryrun dry_run
dry-run dry_run
patience schedule.patience
spares limits.spares
"""
"""A slip, and what its hint must name."""
NO_HINT = ("foo", "x", "verbose", "wandb", "zzz", "hello_world", "fish", "aaaa.bbbb")
"""Words without a near option. A hint would mislead."""


@pytest.mark.parametrize("line", HINTS.split("\n")[1:-1])
def test_a_mistake_gets_the_hint_for_the_right_option(line: str) -> None:
    slip, right = line.split()

    assert re.search(rf"(?<![\w.]){re.escape(right)}(?![\w.])", nearest_option(slip, option_names())), slip


@pytest.mark.parametrize("slip", NO_HINT)
def test_a_word_without_a_near_option_gets_no_hint(slip: str) -> None:
    assert nearest_option(slip, option_names()) == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--multirun", "seed=1,2"), "an option is written key=value, but found '--multirun'"),
        (("seed=1,2", "-m"), "an option is written key=value, but found '-m'"),
        (("--dry-run",), "write dry_run=VALUE"),
        (("--resume", "runs/a"), "write resume=VALUE"),
        (("--resume=runs/a",), "write resume=runs/a"),
        (("--seed", "3"), "write seed=VALUE"),
        (("--name=a",), "write name=a"),
        (("--learning-rate", "0.1"), "trainer.learning_rate"),
        (("--resolve",), "an option is written key=value"),
        (("--fast",), "an option is written key=value, but found '--fast'"),
        (("train", "dataset=digits"), "A run needs none"),
        (("lr=0.1",), "`python -m aiperf help options` lists them"),
        (("seed",), "did you mean 'seed=…'?"),
        (("flops", "resnet50"), "did you mean 'resnet50_v1' or 'resnet50_v1_5'?"),
        (("--cfg", "hydra"), "--cfg job"),
        (("--cfg",), "[OPTION=VALUE …] --cfg job"),
        (("--cfg", "job", "seed=x"), "seed is a whole number"),
    ],
)
def test_words_of_other_tools_get_the_right_option(
    aiperf: User, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    answer = aiperf(*words)

    assert answer.status == 2
    assert message in answer.err
    assert answer.err.startswith("aiperf: ") and answer.err.count("\n") == 1 and "{" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_cfg_job_shows_what_the_journal_would_hold(aiperf: User, tmp_path: Path) -> None:
    words = ("+cluster=simulated", "cluster.workers=7", "schedule=ranking", "seed=3")

    answer = aiperf(*words, "--cfg", "job")

    assert (answer.status, answer.err) == (0, "")
    assert yaml.safe_load(answer.out) == as_plain(configure(words))
    assert list(tmp_path.iterdir()) == []
    assert answer == aiperf("--cfg", "job", *words) == aiperf("--cfg=job", *words)


def test_version_names_program_sources_schema_and_libraries(aiperf: User) -> None:
    answer = aiperf("--version")

    assert answer.status == 0
    message = {line.split()[0] for line in answer.out.splitlines()}
    assert {"aiperf-cluster", "sources", "journal", "python", "torch", "ray", "horovod"} <= message
