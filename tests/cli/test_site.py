"""The file of a site gives options to every run that begins there, and to no run that has begun or is announced."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aiperf.cli.arguments import OF_HYDRA
from aiperf.cli.site import PLACE, VARIABLE, _text, with_site
from aiperf.cli.verbs.runs import sweep
from aiperf.config import as_plain, configure, parsed_alone
from aiperf.drive.session import resumable
from aiperf.planning.plan import first_event, make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.reader_processes import package_environment
from tests.builders.submission import fingerprint, key_file
from tests.rigs.user import User, write_run

CLUSTER = {"partition": "gpu", "setup": ["module load a"], "nodes": 2}
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def write(content: Any, path: Path = PLACE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))


@given(texts=st.lists(TEXTS), text=TEXTS.filter(bool), number=st.floats(0, 1e9), is_on=st.booleans())
def test_words_have_the_values_of_the_file(texts: list[str], text: str, number: float, is_on: bool) -> None:
    values = {
        "cluster.setup": texts,
        "cluster.account": text,
        "schedule.duration_seconds": number,
        "trainer.inherit": is_on,
        "accelerators_per_worker": "all",
        "cluster.qos": None,
        "cluster.faults": [{"kind": text}],
    }

    for option, value in values.items():
        assert parsed_alone(f"{option}={_text(option, value)}").value == value


@pytest.mark.parametrize(
    ("words", "own"),
    [
        ((), ["name=lab"]),
        (("name=mine",), []),
        (("+cluster=simulated",), ["name=lab"]),
        (("+cluster=ray",), ["cluster.nodes=2", "name=lab"]),
        (("+cluster=slurm",), ["cluster.partition=gpu", 'cluster.setup=["module load a"]', "cluster.nodes=2", "name=lab"]),
        (("+cluster=slurm", "cluster.nodes=3", "cluster.setup=[]", "name=x"), ["cluster.partition=gpu"]),
        (("resume=x",), []),
    ],
)  # fmt: skip
def test_options_of_the_chosen_cluster_are_merged_below_the_typed(words: tuple[str, ...], own: list[str]) -> None:
    write({"cluster": CLUSTER, "name": "lab"})

    site = with_site(words)

    assert [*site.own] == own
    assert site.words == [*words, *own]
    configure(site.words)
    assert {word.partition("=")[0] for word in own} | {*site.unused} == {
        "cluster.partition", "cluster.setup", "cluster.nodes", "name",
    }  # fmt: skip


def test_an_option_of_a_fixed_list_is_not_replaced() -> None:
    write({"schedule.duration_seconds": 30, "trainer.precision": "fp32"})

    assert with_site(["follow=reference"]).own == ("trainer.precision=fp32",)


def test_the_variable_names_a_file_or_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"name": "of_folder"})
    write({"name": "of_variable"}, folder / "other.yaml")

    found = []
    for value in ("other.yaml", "", package_environment()[VARIABLE]):
        monkeypatch.setenv(VARIABLE, value)
        found.append(with_site([]).own)

    assert found == [("name=of_variable",), (), ()]


@pytest.mark.parametrize("empty", ["", "# nothing\n", "cluster:\n", "{}"])
def test_a_file_without_options_changes_nothing(empty: str) -> None:
    write(empty)

    assert with_site([]).words == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("cluster: {partion: a}", "has the key 'cluster.partion' (did you mean 'cluster.partition'?)"),
        ("a: 1", "has the key 'a'"),
        ("cluster: slurm", "chooses cluster: choose it on the command line (cluster=slurm)"),
        ("dataset: imagenet", "chooses dataset"),
        ("dataset: {name: imagenet}", "dataset.name is set by the choice"),
        ("resume: x", "sets resume, which is for one run: give it on the command line"),
        ('cluster.faults: "a["', "a value is written KEY=VALUE"),
        ("seed: 3", "sets seed, which is for one run"),
        ("cluster.nodes: 0", "cluster.nodes is between 1 and"),
        ("cluster.account: 0123", "cluster.account is text or null, but found 83: give such a value, or leave it out. A"),
        ("cluster.time: 2026-01-01", "cluster.time is"),
        ("cluster: {setup: module load a}", "cluster.setup is a list"),
        ("trainer: {inherit: 1}", "trainer.inherit is true or false"),
        ("cluster: {nodes: 2}\ncluster.nodes: 3", "sets cluster.nodes twice: leave one out"),
        ("[a]", "has other content"),
        ("a: [", "is not valid YAML"),
        ('runs: ""', "runs is a text, but 'runs=' has nothing"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_is_refused_with_file_and_fix(aiperf: User, content: str, said: str) -> None:
    write(content)

    answer = aiperf("dry_run=true")

    assert answer.status == 2
    assert said in answer.err
    assert str(PLACE) in answer.err


def test_the_plan_and_errors_name_the_file(aiperf: User) -> None:
    write({"cluster": {"partition": "gpu", "time": "00:01:00"}, "name": "lab"})

    plan, wrong = aiperf("dry_run=true"), aiperf("+cluster=slurm", "dry_run=true")

    assert "site         name=lab: from 'conf/site.yaml'\n" in plan.out
    assert "not used: cluster.partition, cluster.time\n" in plan.out
    assert wrong.status == 2 and "cluster.time=00:01:00, name=lab: from 'conf/site.yaml'\naiperf: " in wrong.err


def test_a_job_script_has_the_options_and_reads_no_file(aiperf: User) -> None:
    write({"cluster": CLUSTER})

    answer = aiperf("+cluster=slurm", "cluster.submit=false")

    assert "#SBATCH --partition=gpu" in answer.out and "\nmodule load a || exit\n" in answer.out
    assert "cluster.partition=gpu 'cluster.setup=[\"module load a\"]' cluster.nodes=2" in answer.out
    assert f"{VARIABLE}=\n" in answer.out
    assert "from 'conf/site.yaml'" in answer.err


def test_a_resumed_run_has_the_options_of_its_journal() -> None:
    write({"runs": "here", "limits.trials": 3, "batch.default": 16})
    conf = configure(with_site(["schedule.duration_seconds=60", "schedule.warmup_seconds=5"]).words)
    write_run(Path("here/one"), [first_event(make_plan(conf, this_machine(conf)), "one", 1_795_262_400.0)])
    write({"runs": "here", "limits.trials": 4, "trainer.precision": "fp32"})

    resumed = resumable(configure(with_site(["resume=one"]).words))

    assert as_plain(replace(resumed.conf, resume=None)) == as_plain(conf)


def test_an_announced_run_has_the_announced_options(aiperf: User, folder: Path) -> None:
    key_file(folder)
    by = fingerprint(key_file(folder, "other"))
    write({"limits.trials": 3, "runs": "here"})
    short = ["+cluster=simulated", "schedule.duration_seconds=60", "schedule.warmup_seconds=10", "hpo=off"]
    printed = aiperf("announce", *short, "--nonce-by", by, "--key", "key", "--log", "log").out.splitlines()
    (start,) = (line for line in printed if line.startswith("start it"))
    wanted = shlex.split(start)[-2].partition("=")[2]
    aiperf("announce", "--nonce", wanted, "--key", "other", "--log", "log")
    write({"limits.trials": 4, "trainer.precision": "fp32", "runs": "there"})

    answer = aiperf(*shlex.split(start.partition("aiperf ")[2]))

    assert answer.status != 2, answer.err
    (journal,) = folder.glob("here/*/journal.jsonl")
    config = json.loads(journal.read_text().splitlines()[0])["config"]
    assert (config["limits"]["trials"], config["trainer"]["precision"]) == (3, "auto")


def test_a_sweep_takes_what_it_does_not_vary(aiperf: User, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"name": "lab", "runs": "here", "batch.default": 16, "limits.trials": 1})
    started: list[list[str]] = []

    def start(words: list[str]) -> int:
        started.append(words)
        return 0

    monkeypatch.setattr(sweep, "_start", start)

    answer = aiperf("sweep", "--repeat", "1", "--over", "batch.default=32,64", "executor=inline")

    assert answer.status == 0, answer.err
    assert "site: runs=here, limits.trials=1: from 'conf/site.yaml'\nnot used: name, batch.default" in answer.err
    assert [[word for word in words if "batch" in word or "trials" in word] for words in started] == [
        ["limits.trials=1", "batch.default=32"], ["limits.trials=1", "batch.default=64"],
    ]  # fmt: skip


@pytest.mark.parametrize("flag", OF_HYDRA)
def test_flags_of_hydra_name_what_there_is_instead(aiperf: User, flag: str) -> None:
    answer = aiperf(f"{flag}=x" if flag.startswith("--config") else flag, "seed=1,2")

    assert answer.status == 2
    assert OF_HYDRA[flag].removeprefix("`python -m aiperf ") in answer.err
