"""`python -m aiperf breakdown` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.journal import one_trial, profiled
from tests.rigs.user import User, write_run

TIMELINE = Path(__file__).parents[1] / "train/tracing/horovod_two_ranks.json"
TRACE = json.dumps(
    {
        "traceEvents": [
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 0, "dur": 300, "tid": 7},
            {"ph": "X", "cat": "kernel", "name": "sm80_xmma_fprop", "ts": 0, "dur": 700, "tid": 8},
        ]
    }
)


def test_a_run_shows_kernels_exchange_and_numbers(aiperf: User, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "traced", one_trial(profiled(at=3.0), profiled(at=4.0)))

    shown, as_json = aiperf("breakdown", "traced"), aiperf("breakdown", "traced", "--json")

    assert (shown.status, as_json.status) == (0, 0)
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert "convolution 60.000 ms 60.0 %" in lines and "negotiation 2.000 ms 20.0 %" in lines
    assert "queuing not measured —" in lines
    assert "convolution 2.00 % 13.00 % 0.00 % 0.00 % 0.00 % 0.00 % 25.00 %" in lines
    assert lines[0].endswith("The journal has 2 traces: --json prints all.")
    first, second = json.loads(as_json.out)["steps"]
    assert first == second and first["kernels"][0] == {"name": "convolution", "seconds": 0.06, "share": 0.6}


def test_a_timeline_shows_the_rows_of_table_6(aiperf: User) -> None:
    shown, as_json = (
        aiperf("breakdown", "--timeline", str(TIMELINE)),
        aiperf("breakdown", "--timeline", str(TIMELINE), "--json"),
    )

    assert shown.status == 0 and "Gradient exchange (Horovod timeline)" in shown.out
    assert shown.out.count("not measured") == 3
    found = json.loads(as_json.out)
    assert (found["steps"], found["is_truncated"]) == (3, False)
    assert [each["name"] for each in found["parts"]] == ["negotiation", "memcpy in", "all-reduce", "memcpy out"]


@pytest.mark.parametrize(("text", "is_truncated"), [(TRACE, False), (TRACE[:-1], False), (TRACE[:-2], True)])
def test_a_trace_shows_classes_and_truncation(aiperf: User, tmp_path: Path, text: str, is_truncated: bool) -> None:
    (tmp_path / "trace.json").write_text(text)

    shown, as_json = (
        aiperf("breakdown", "--trace", "trace.json"),
        aiperf("breakdown", "--trace", "trace.json", "--json"),
    )

    found = json.loads(as_json.out)
    assert (found["device"], found["steps"], found["is_truncated"]) == ("cuda", 0, is_truncated)
    assert {each["name"]: each["share"] for each in found["parts"] if each["share"]} == {
        "convolution": 0.7, "all-reduce": 0.3
    }  # fmt: skip
    assert ("Warning: the file is truncated after 2 events" in shown.out) == is_truncated


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "needs one of a run, --timeline FILE and --trace FILE. Name one of them"),
        (["one", "--trace", "two"], "needs one of a run, --timeline FILE and --trace FILE. Name one of them"),
        (["plain"], "'plain' has no traced steps in its journal. Run with trainer.profile_steps=10"),
        (["--trace", "nowhere.json"], "but found 'nowhere.json', which is not there: name such a file"),
        (["--trace", str(TIMELINE)], "has no operators or kernels by torch.profiler"),
        (["--timeline", "trace.json"], "'trace.json' has no exchanges of tensors by Horovod"),
    ],
)
def test_a_mistake_is_one_message_with_its_fix(aiperf: User, tmp_path: Path, words: list[str], message: str) -> None:
    write_run(tmp_path / "runs" / "plain", one_trial())
    (tmp_path / "trace.json").write_text(TRACE)

    answer = aiperf("breakdown", *words)

    assert answer.status == 2
    assert message in answer.err and answer.err.count("\n") == 1
