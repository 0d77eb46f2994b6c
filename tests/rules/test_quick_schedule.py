"""The quick schedule and the default task: its learning rate ends with the last round, and its noise is shown."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.cli.run import describe_plan
from aiperf.config import as_plain, configure, from_plain
from aiperf.data.dataset_config import DigitsConf
from aiperf.journal.journal import Journal
from aiperf.page.terminal import table_lines
from aiperf.planning.plan import first_event, make_plan
from aiperf.planning.worker_shape import this_machine
from aiperf.report.write import closing_lines, report_of, write
from aiperf.train.trainer_config import learning_rate
from tests.builders.report_journal import Shape, invented

ROUNDS = st.lists(st.integers(1, 200), min_size=1, max_size=4).map(sorted)


@given(ROUNDS)
@settings(max_examples=10, deadline=None)
def test_quick_learning_rate_ends_with_the_last_round(rounds: list[int]) -> None:
    conf = configure([f"schedule.epochs={rounds}".replace(" ", "")])

    rates = [learning_rate(conf.trainer, epoch, 128) for epoch in range(1, rounds[-1] + 1)]

    assert rates == pytest.approx([0.1 * (1 - done / rounds[-1]) for done in range(rounds[-1])])


def test_ranking_decay_keeps_60_epochs_for_any_rounds() -> None:
    words = ["+cluster=simulated", "schedule=ranking"]

    assert configure(words).trainer.decay_epochs == 60
    assert configure([*words, "schedule.epochs=[5,90]"]).trainer.decay_epochs == 60


def test_named_decay_is_used_and_recorded_in_the_journal() -> None:
    named, unnamed = configure(["trainer.decay_epochs=7"]), configure([])

    assert named.trainer.decay_epochs == 7
    line = first_event(make_plan(unnamed, this_machine(unnamed)), "a run", 0.0)
    assert line.config["trainer"]["decay_epochs"] == unnamed.schedule.epochs[-1]


def test_a_journal_from_before_keeps_its_decay_and_its_images() -> None:
    plain = json.loads(json.dumps(as_plain(configure([]))))
    plain["trainer"]["decay_epochs"] = 60
    plain["dataset"] = {"name": "digits", "augment": True}

    conf = from_plain(plain)

    assert conf.trainer.decay_epochs == 60
    assert conf.dataset.noise == 0.0  # type: ignore[attr-defined]


def test_noise_of_the_default_task_is_shown_everywhere(tmp_path: Path) -> None:
    conf = configure([])
    assert isinstance(conf.dataset, DigitsConf) and conf.dataset.noise > 0
    said = f"with added noise of {100 * conf.dataset.noise:.3g} % of the pixel range"
    plan = make_plan(conf, this_machine(conf))
    line = first_event(plan, "a run", 0.0)
    first, *others = invented(Shape(duration=60.0, warmup=10.0))

    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append([msgspec.structs.replace(first, dataset=line.dataset), *others])
    report = report_of(tmp_path)
    page = write(report, tmp_path).page.read_text("utf-8")

    assert line.dataset["noise"] == conf.dataset.noise
    assert any(said in line for line in table_lines(describe_plan(plan)))
    assert any(said in line for line in closing_lines(report))
    assert page.count(said) == 2, "beside the data set's name, and in the table of the run"


def test_no_noise_is_reported_if_there_is_none(tmp_path: Path) -> None:
    conf = configure(["dataset.noise=0"])

    assert "noise" not in "\n".join(table_lines(describe_plan(make_plan(conf, this_machine(conf)))))
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(invented(Shape(duration=60.0, warmup=10.0)))
    assert "added noise" not in write(report_of(tmp_path), tmp_path).page.read_text("utf-8")
