"""Each value of a sound file, replaced by a wrong one, gives success or one message: no traceback, no hang, no gigabytes."""

from __future__ import annotations

import json
import re
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import morphism
from aiperf import bounded_yaml
from aiperf.__main__ import main
from aiperf.config import as_plain, configure
from aiperf.scaling.elsewhere import FORMAT
from aiperf.simulate.study import predict
from aiperf.statistics import predicted_score
from tests.bad_inputs.hostile_files import METER, RUNS, SYSTEM, TESTS, place
from tests.bops.test_roofline import result
from tests.builders.forged_journal import Place, changed, hash_chained, places
from tests.builders.journal import profiled
from tests.scaling.test_elsewhere import HEADER

WRONG = [
    "null", "true", "-1", "0", "1e-300", "1e400", str(2**62), "1" + "0" * 400, '""', '"text"', r'"\u001b]0;x\u0007\u202e"',
    r'"\ud800"', "[]", "{}", "[[[1]]]", '{"a": {"b": [null]}}',
]  # fmt: skip
"""JSON of the wrong values."""
MOST_MEMORY, HANGS_AFTER_SECONDS = 2 << 30, 20
SAMPLE, MOST = 5, 500
"""Files of a row in `make test` and in the long test."""
JOURNAL = (TESTS / "golden/resumed-v5.jsonl").read_text()
TRACED = [*JOURNAL.splitlines()[:8], msgspec.json.encode(profiled(at=15.0)).decode()]
GRAPH = (TESTS / "morphism/golden/graph-v1.json").read_text()
DIVISION = (TESTS.parent / "aiperf/ranking/divisions/quick.yaml").read_text()
PEAK = {"model": "x", "per_core": {"fma_fp32": 1e11, "fma_bf16": 2e11}, "cores": 4, "memory_bytes_per_second": 6e10}
TIMELINE = (TESTS / "train/tracing/horovod_two_ranks.json").read_text()
KERNEL = {"ph": "X", "cat": "kernel", "name": "sm80_xmma_gemm", "ts": 1.5, "dur": 2.0, "pid": 0, "tid": 7}
SIZES = [{"accelerators": size, "seconds_per_image": {"compute": 1.0, "evaluation": 0.5}} for size in (1, 2, 4)]


def _prediction() -> dict[str, Any]:
    words = ("+cluster=simulated", "schedule.duration_seconds=60", "schedule.warmup_seconds=5")
    dataset = {"name": "digits", "training_images": 9, "validation_images": 9, "classes": 10, "image": 8, "channels": 1}
    made = predicted_score.ScorePrediction(
        predicted_score.FORMAT, "x", (), "x", "x", 1, False, as_plain(configure(words)), dataset, (1e9, 2e9), {"lost": 1.0}
    )  # fmt: skip
    return predicted_score.as_json(made)


SOUND = {
    "breakdown": "\n".join(TRACED),
    "breakdown --timeline": TIMELINE,
    "breakdown --trace": json.dumps({"traceEvents": [KERNEL, KERNEL | {"cat": "cpu_op", "name": "aten::mm"}]}),
    "check --division": re.sub("(?m)^(division|title):.*", r"\1: ours", DIVISION),
    "flops": GRAPH,
    "hpl explain": (TESTS / "borders/data/hpl23_plain.out").read_text(),
    "hpl explain --system": SYSTEM.read_text(),
    "hpl predict": SYSTEM.read_text(),
    "morph": GRAPH,
    "predict --again": json.dumps(_prediction()),
    "quality --detections": '{"images": [{"truth": [[1, 2, 30, 40, 1]], "found": [[1, 2, 30, 41, 0.5, 1]]}]}',
    "report --roofs": json.dumps(PEAK),
    "score, form of a meter": METER["power/rack.yaml"],
    "score, table of a meter": METER["power/rack.csv"],
    "roofline": json.dumps(msgspec.to_builtins(result("Sort", 11.7, 1.0))),
    "roofline --peak": json.dumps(PEAK),
    "scale --points": HEADER + "a,1,32,10,90\na,2,64,19,50\na,4,96,30,40\n",
    "scale --predicted": json.dumps({"format": FORMAT, "strong": SIZES, "weak": SIZES}),
    "standing --list": (TESTS / "scaling/top500_2019_06.csv").read_text(),
    "start=": morphism.encode_architecture(morphism.start_of("digits_small", image=8, width=8, channels=1, classes=10)),
    "status, id of a job": '{"kind": "slurm", "job": "1"}',
    "system.file=": "{name: x, site: y, year: 2026, nodes_total: 4, power_share: 0.5, peak: {bf16: 1.0e+15, source: z}}",
    "topology --network": GRAPH,
} | dict.fromkeys(
    ("check", "compare", "export", "predict --from", "rank", "report", "score", "status", "verify"),
    JOURNAL,
)
"""Content of a sound file by row of the tables."""
SLOW = {
    "export", "predict --again", "predict --from", "quality --detections", "report", "report --roofs", "roofline",
    "roofline --peak", "start=", "system.file=", "verify",
}  # fmt: skip
"""Rows that plan or simulate a run, draw a page, or load torch."""


def parsed(row: str) -> Any:
    """Return the content of JSON or YAML, the lines of a log, or the words of another text and what is between them."""
    if row in RUNS:
        lines = [json.loads(line) for line in SOUND[row].splitlines()]
        return [{name: value for name, value in line.items() if name != "chain"} for line in lines]
    for load in (json.loads, bounded_yaml.load):
        with suppress(ValueError):
            if isinstance(content := load(SOUND[row]), list | dict):
                return content
    return re.split(r"([^\s,]+)", SOUND[row])


def written(row: str, content: Any) -> bytes:
    def as_json(value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).replace("Infinity", "1e400").encode()

    if row in RUNS:
        return hash_chained(map(as_json, content))
    if isinstance(content, list) and isinstance(content[-1], str):
        return "".join(map(str, content)).encode(errors="surrogatepass")
    return as_json(content)


def with_value(row: str, content: Any, at: Place, value: Any) -> Any:
    if row in RUNS and at[1:]:
        return [changed(line, at[1:], value) if number == at[0] else line for number, line in enumerate(content)]
    return changed(content, at, value)


def outcome(words: list[str]) -> int:
    """Return the status of a command in this process, within limits of memory and processor time."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST_MEMORY, limits[1]))
    signal.setitimer(signal.ITIMER_PROF, HANGS_AFTER_SECONDS)  # its signal ends the test run, as a hang would
    try:
        return main(words)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture
def replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., None]:
    """Check one row with this number of wrong values, in the whole file or in the first line of a journal."""
    monkeypatch.setattr(predict, "SEEDS", 2)

    def check(row: str, number: int, in_first_line: bool = False) -> None:
        files: list[Path] = []
        (tmp_path / "folder").mkdir()
        words = place(tmp_path / "folder", row, "", files.append)
        monkeypatch.chdir(tmp_path / "folder")
        content = parsed(row)
        files[0].write_bytes(written(row, content))
        assert outcome(words) in (0, 1), capsys.readouterr().err
        cases = [*product((at for at in places(content) if not in_first_line or at[0] == 0), WRONG)]
        for at, wrong in Random(row).sample(cases, min(number, len(cases))):
            files[0].write_bytes(written(row, with_value(row, content, at, json.loads(wrong))))

            status = outcome(words)

            output, message = capsys.readouterr()
            is_error = status == 2 and message.startswith("aiperf: ") and message.count("\n") == 1
            assert status in (0, 1) or is_error, (at, wrong, status, message)
            assert not re.search("[\x1b\u202e]", output + message), (at, wrong, output, message)

    return check


@pytest.mark.parametrize("row", [row for row in SOUND if row not in SLOW])
def test_a_wrong_value_gives_one_message(replaced: Callable[..., None], row: str) -> None:
    replaced(row, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("row", SOUND)
def test_most_wrong_values_give_one_message(replaced: Callable[..., None], row: str) -> None:
    replaced(row, MOST if row not in SLOW else MOST // 10)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in SOUND if row in RUNS])
def test_wrong_first_lines_give_one_message(replaced: Callable[..., None], row: str) -> None:
    replaced(row, MOST, in_first_line=True)
