"""Noun of a sample on screens: it comes from the description of the data set in the journal."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from aiperf.cli.verbs.rules import quality
from aiperf.data.description import DIGITS
from aiperf.journal.events import RunStarted
from aiperf.page.terminal import parts_lines
from aiperf.scaling import scale_text
from aiperf.scaling.study import study
from aiperf.units import Noun
from aiperf.verify.quality import QualityAudit
from tests.builders.report_journal import Shape, invented
from tests.builders.scaling_point import a_point
from tests.rigs.user import User, write_run

SEQUENCES = Noun("sequence", "sequences")


@pytest.mark.parametrize(
    "words",
    [
        ("score", "a"),
        ("status", "a"),
        ("verify", "a"),
        ("check", "a", "--division", "quick"),
        ("check", "a", "--level", "system", "--against", "b"),
        ("compare", "a", "b"),
        ("rank", "runs"),
        ("report", "a"),
    ],
    ids=" ".join,
)
def test_no_screen_calls_sequences_images(aiperf: User, tmp_path: Path, words: tuple[str, ...]) -> None:
    first, *rest = invented(Shape(duration=60.0, warmup=10.0))
    assert isinstance(first, RunStarted)
    recorded = replace(DIGITS, noun=SEQUENCES).recorded
    for name in ("a", "b"):
        write_run(tmp_path / "runs" / name, [msgspec.structs.replace(first, run=name, dataset=recorded), *rest])

    answer = aiperf(*words)

    assert len(answer.out) > 40, answer.err
    assert "image" not in answer.out.replace("dataset=imagenet", "")


def test_scale_and_quality_name_the_samples() -> None:
    sizes = [a_point(ranks, [10.0, 0, 0, 0, 0, 0, 0], samples=SEQUENCES.many) for ranks in (1, 2)]
    scaled = study(sizes, Fraction(0))
    audited = QualityAudit("a", 0, 1, "top1", 5, "fp32", "cpu", 0.6, 0.6, 1.0, 1.0, samples=SEQUENCES.many)

    screens = [
        *parts_lines(scale_text.parts(scaled)),
        *scale_text.sentences(scaled),
        *parts_lines(quality.parts(audited)),
    ]

    assert "sequences/s" in "\n".join(screens) and "3 sequences correct" in "\n".join(screens)
    assert "image" not in "\n".join(screens)
