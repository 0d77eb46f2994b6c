"""`scale` from the command line: journals on disk, its page, its time, and the libraries that it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from aiperf.__main__ import main
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME, Journal
from aiperf.page.section import Table
from aiperf.scaling.page import write
from aiperf.scaling.point import point_of_events
from aiperf.scaling.scale_text import parts, scale_json, sentences
from aiperf.scaling.study import study
from tests.builders.journal import evaluated
from tests.builders.scaling_point import a_point, steady
from tests.scaling.test_scale import run_of
from tests.system.test_host_load import looks, session

JOURNALS = 24


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of 24 runs: 12 rounds of 1 and 2 ranks."""
    folder = tmp_path_factory.mktemp("sweep")
    for number in range(JOURNALS):
        run = folder / f"{number:02}"
        run.mkdir()
        ranks = 1 + number % 2
        first, *rest = run_of(ranks, communication_seconds=1.0 * (ranks - 1))
        assert isinstance(first, RunStarted)
        with Journal(run / NAME) as journal:
            journal.append([msgspec.structs.replace(first, started_unix=1e6 + number), *rest])
    return folder


def test_scale_reads_24_journals_without_torch_or_ray(sweep: Path, tmp_path: Path) -> None:
    """Within 5 s of processor time, with the interpreter's start."""
    asked = (
        "import sys, time\n"
        "from aiperf.__main__ import main\n"
        "status = main(sys.argv[1:])\n"
        "print(json.dumps([status, time.process_time(), sorted({n.split('.')[0] for n in sys.modules})]), file=sys.stderr)\n"
    )

    answer = subprocess.run(
        [sys.executable, "-c", f"import json\n{asked}", "scale", str(sweep), "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    status, seconds, loaded = json.loads(answer.stderr.splitlines()[-1])
    found = json.loads(answer.stdout)
    assert status == 0 and seconds < 5
    assert not {"torch", "ray", "matplotlib"} & set(loaded)
    assert len(found["points"]) == JOURNALS and len(found["sentences"]) == 5
    (pair,) = found["pairs"]
    assert (pair["from"], pair["to"], pair["rounds"]) == (1, 2, 12) and pair["interval"] is not None


def test_the_page_has_its_figures(sweep: Path, tmp_path: Path) -> None:
    assert main(["scale", str(sweep), "--out", str(tmp_path / "page")]) == 0

    page = (tmp_path / "page" / "scale.html").read_text()
    assert page.count("<figure") == 2 and "of linear is left" in page
    assert {path.stem for path in (tmp_path / "page" / "plots").iterdir()} == {"scale-linear", "scale-lost"}
    assert json.loads((tmp_path / "page" / "scale.json").read_text())["scaling"] == "weak"


def test_a_page_by_batch_has_seconds_and_epochs(tmp_path: Path) -> None:
    runs = [
        steady(
            1, 1000.0, batch=batch, target=0.9, started=batch + n, options={"batch.default": str(batch)},
            epochs=tuple(evaluated(0, float(e), 0.95 if e == epochs + n else 0.5, epoch=e) for e in range(1, epochs + n + 1)),
        )
        for batch, epochs in ((16, 4), (32, 5), (64, 9))
        for n in range(2)
    ]  # fmt: skip

    write(study(runs, by="batch.default"), tmp_path)

    assert {path.stem for path in (tmp_path / "plots").iterdir()} == {"scale-batch", "scale-epochs"}


def test_sentences_say_what_was_not_measured() -> None:
    by_ranks = sentences(study([steady(1, 10.0), steady(2, 19.0)]))
    by_option = sentences(study([steady(1, 10.0, options={"a": "x"}), steady(1, 12.0, options={"a": "y"})], by="a"))

    assert "The best batch was not measured" in by_ranks[2] and "Precisions were not compared" in by_ranks[3]
    assert "was not measured" in by_option[0] and len(by_option) == 5


def test_a_simulated_point_is_never_mixed_with_a_real_one(sweep: Path) -> None:
    from aiperf.errors import CannotCompare

    with pytest.raises(CannotCompare, match="is_simulated: "):
        study([steady(1, 10.0), replace(steady(2, 19.0), is_simulated=True)])


@pytest.mark.parametrize("word", ["every=0", "maybe", "every=x"])
def test_a_wrong_evaluation_is_refused(sweep: Path, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", str(sweep), "--evaluation", word]) == 2
    assert f"found '{word}'" in capsys.readouterr().err


def test_evaluation_every_fourth_epoch_counts_a_quarter() -> None:
    one, two = a_point(1, [1, 0, 0, 0, 0, 0, 4]), a_point(2, [2, 0, 0, 0, 0, 0, 4])

    found = study([one, two], Fraction(1, 4)).scaling

    assert found is not None and found.pairs[0].efficiency == pytest.approx((1 + 1) / (2 + 1))


def test_warnings_of_a_run_follow_the_figure_that_they_spoil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "telemetry").mkdir()
    records = looks(session(), own=0.5, others=0.31)
    monkeypatch.setattr("aiperf.system.log.read", lambda folder: iter(records))
    spoiled = point_of_events(run_of(2), "beside others", tmp_path)
    found = study([steady(1, 10.0), replace(steady(2, 19.0), warnings=spoiled.warnings, run=spoiled.run)])
    groups = parts(found)[0]
    assert isinstance(groups, Table)
    (one, *_), (two, *_) = groups.rows

    assert two.unfolds[0].startswith("Warning of beside others: other programs ran beside this run on 1 of 1 host")
    assert one.unfolds == () and scale_json(found)["points"][1]["warnings"] == spoiled.warnings
