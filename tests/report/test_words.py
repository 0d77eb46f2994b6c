"""Words of a report that a reader compares pages by: the head, MFU, the error's floor, trials at the end, warnings, options."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.description import DIGITS
from aiperf.drive.live import line
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.page.html import linked
from aiperf.report import html, phrases
from aiperf.report.facts import Hardware
from aiperf.report.gather import gather
from aiperf.report.html import page
from aiperf.report.plots import error_over_time
from aiperf.report.sections.search import accuracy_against_operations
from aiperf.report.write import closing_lines, write
from aiperf.run_warning import RunWarning
from aiperf.units import Noun
from tests.builders.journal import (
    begun,
    ended,
    evaluated,
    finished,
    interval,
    joined,
    one_trial,
    positioned,
    proposed,
    requested,
    started,
)
from tests.builders.report_journal import Shape, invented
from tests.drive.test_live import VIEW
from tests.report.test_written import Parsed

GPU = "NVIDIA A100-SXM4-80GB"
REPORT = gather(invented(Shape(duration=40.0, warmup=10.0)))


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        (Hardware((GPU,), 8, True, 1, ("bf16",), ("horovod (nccl)",)), f"8 × {GPU} on 1 host · bf16 · horovod (nccl)"),
        (Hardware(("EPYC",), 1, False, 2, ("fp32",), ("gloo",)), "1 process on EPYC, 2 hosts · fp32 · gloo"),
        (Hardware(("EPYC",), 2, False, 1, (), ("gloo",)), "2 processes on EPYC, 1 host · no precision known · gloo"),
        (
            Hardware(("simulated",), 32768, False, 4096, (), ()),
            "32\u202f768 simulated accelerators on 4\u202f096 hosts",
        ),
        (Hardware((), 0, False, 0, (), ()), "no worker came up"),
    ],
)
def test_the_head_names_machine_count_precision_collective(machines: Hardware, expected: str) -> None:
    assert phrases.hardware(machines) == expected


def test_the_head_has_machine_benchmark_run_release_in_order() -> None:
    head = dict(html.about(REPORT))

    assert list(head) == ["Machine", "Benchmark", "Run", "Release"]
    assert head["Machine"] == "2 processes on AMD EPYC 9R14, 1 host · fp32 · horovod 0.28.1 (gloo)"
    assert head["Benchmark"].startswith(
        "digits, 8×8×1, 10 classes · starts at digits_small · 40 s, including 10 s of warm-up"
    )
    assert "0.1.0" in head["Release"]


def test_mfu_is_shown_with_its_peak_per_rank_and_ranks() -> None:
    used = replace(REPORT.utilisation, mfu=0.41, peak_flops=312e12, peak_source=f"dense peak of {GPU} in bf16")
    report = replace(REPORT, utilisation=used)

    shown = " ".join(Parsed(page(report, [])).text)

    assert phrases.peak(report) == "312 TFLOPS per rank × 2"
    assert "of 312 TFLOPS per rank × 2: dense peak" in shown and "41.0\u00a0%" in shown
    assert phrases.peak(replace(REPORT, utilisation=replace(used, peak_flops=None))) is None


@given(images=st.integers(1, 10**6), wrong=st.integers(0, 10**6))
def test_an_error_is_a_bound_if_no_image_was_wrong(images: int, wrong: int) -> None:
    wrong = min(wrong, images)
    run = replace(REPORT.run, dataset={"validation_images": images})

    figure = phrases.error_of(max(wrong / images, 1 / (2 * images)), run)

    assert figure.startswith("≤ ") == figure.endswith(" images)") == (wrong == 0)


def test_the_smallest_error_is_reported_with_its_images() -> None:
    assert phrases.error_of(1 / 720, REPORT.run) == "≤ 0.14 % (no error in 360 images)"


def test_open_trials_at_the_end_are_cut_off_or_never_started() -> None:
    # the first trial is being trained. The second was proposed, and no worker took it
    events: list[AnyEvent] = [
        started(),
        joined(),
        requested(0),
        proposed(0),
        begun(0, 2.0),
        interval(0, 5.0, 15.0, 100, busy=10.0),
        requested(1),
        proposed(1),
    ]

    over, going = (gather(positioned([*events, *last])).trials for last in ([ended()], []))

    assert [trial.outcome for trial in over] == ["cut off", "never started"]
    assert [trial.outcome for trial in going] == ["training", "waiting"]


def test_a_warning_without_something_to_do_cannot_be_made() -> None:
    with pytest.raises(AssertionError, match="a remedy"):
        RunWarning("a disk is slow", "note", "")


def test_each_warning_has_its_remedy_in_terminal_and_page() -> None:
    report = gather(invented(Shape(duration=40.0, warmup=10.0, workers=2, lose_worker_at=20.0, ends="interrupted")))
    lines = list(closing_lines(report))
    shown = page(report, [])

    assert len(report.warnings) >= 3
    for warning in report.warnings:
        below = lines.index(f"  {warning.severity}: {warning.text}") + 1
        assert lines[below] == f"    to do: {warning.remedy}"
        assert f'<span class="remedy">To do: {linked(phrases.of_devices(report)(warning.remedy))}</span>' in shown


def test_a_plot_of_one_trial_asks_for_no_axis_without_length() -> None:
    run = one_trial(interval(0, 5.0, 15.0, 100, busy=10.0), evaluated(0, 20.0, 0.9), finished(0, 20.0, 0.9), ended())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = [draw(gather(run)) for draw in (accuracy_against_operations, error_over_time)]

    assert all(each.png is not None for each in drawn)


def test_a_set_of_sequences_is_never_called_images(tmp_path: Path) -> None:
    first, *rest = invented(Shape(duration=60.0, warmup=10.0))
    assert isinstance(first, RunStarted)
    data = replace(DIGITS, noun=Noun("sequence", "sequences"))
    report = gather([msgspec.structs.replace(first, dataset=data.recorded), *rest])

    write(report, tmp_path)
    shown = (tmp_path / "report.html").read_text()
    shown = re.sub(r"<details><summary>each rule.*?</details>", "", shown)  # the ranking's rules are those of ImageNet
    visible = re.sub(r"<[^>]*>|image/svg.xml", "", shown, flags=re.DOTALL)
    described = " ".join(re.findall(r'(?:title|aria-label|alt)="([^"]*)"', shown))

    assert "validation sequences" in visible and "per sequence" in visible
    text = f"{visible} {described} {' '.join(closing_lines(report))}".replace("dataset=imagenet", "")
    assert "image" not in text.lower()
    assert "image" not in line(VIEW)
