"""Section "Predicted and measured" of a predicted run."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.journal.events import ScorePredicted
from aiperf.journal.journal import NAME, read
from aiperf.page.section import DrawnFigure, Paragraph
from aiperf.report.facts import Report
from aiperf.report.gather import gather
from aiperf.report.html import page
from aiperf.report.sections import sections
from aiperf.report.sections.score import prediction
from tests.simulate.test_session import configured, journal

SHARES = {"training": 0.1, "communication": 0.2}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return journal(configured(hours=0.75), tmp_path_factory.mktemp("run") / NAME)


def report_of(path: Path, score: float = 2e13, shares: dict[str, float] = SHARES) -> Report:
    content = {
        "score": score,
        "interval": [0.9 * score, 1.1 * score],
        "shares": shares,
        "workers": 3,
        "is_extrapolated": True,
        "source": "runs/pilot",
    }
    first, *rest = read(path)
    return gather([first, ScorePredicted(at=0.0, prediction=content), *rest])


def test_run_without_prediction_has_no_section(path: Path) -> None:
    report = gather(read(path))

    assert report.prediction is None
    assert prediction(report) is None
    assert "prediction" not in [section.name for section in sections(report)]


def test_lines_are_those_of_the_time_breakdown(path: Path) -> None:
    report = report_of(path)
    found = report.prediction
    assert found is not None

    assert [line.name for line in found.lines] == [line.name for line in report.time_breakdown.lines]
    assert [line.measured for line in found.lines] == [line.share for line in report.time_breakdown.lines]
    assert {line.name: line.predicted for line in found.lines if line.predicted} == SHARES
    gaps = {line.name: abs(line.gap) for line in found.lines}
    assert found.largest_gap == max(gaps, key=lambda name: gaps[name])
    score = report.score.flops_per_second
    assert score is not None
    # The lines add up to the whole: predicted score ÷ score.
    assert sum(line.same_work for line in found.lines) == pytest.approx(found.flops_per_second / score)


def test_a_slower_machine_with_equal_shares_has_its_gap_in_training(path: Path) -> None:
    measured = gather(read(path))
    shares = {line.name: line.share for line in measured.time_breakdown.lines}
    score = measured.score.flops_per_second
    assert score is not None

    found = report_of(path, 1.5 * score, shares).prediction

    assert found is not None and found.largest_gap == max(shares, key=lambda name: shares[name])


def test_section_shows_both_scores_and_the_largest_gap(path: Path) -> None:
    section = prediction(report_of(path))
    assert section is not None
    texts = [part.text for part in section.parts if isinstance(part, Paragraph)]

    assert "runs/pilot, extrapolated from another number of workers: 20.0 TFLOPS" in texts[0]
    assert texts[1].startswith("Largest gap: communication, predicted 20.0 % of the accelerator time. For the same ")
    (figure,) = [part for part in section.parts if isinstance(part, DrawnFigure)]
    assert figure.svg is not None
    assert figure.svg.count("predicted") == 1


def test_page_links_to_the_section(path: Path) -> None:
    report = report_of(path)

    assert '<a href="#prediction">Prediction</a>' in page(report, sections(report))
