"""Peaks, tools, instruction counts and the verbs, with the programs that they build and run."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiperf.bops import instructions
from aiperf.bops.execute import execute
from aiperf.bops.instructions import (
    NotMeasured,
    controller_bytes,
    counted_by_callgrind,
    counted_by_perf,
    floating_point_operations,
)
from aiperf.bops.peak import DOUBTFUL, NATIVE, measure_peak, own_peak
from aiperf.bops.result import Times
from aiperf.bops.run import LEAST_REPEATS, Tool, ratio, result, times, tool
from aiperf.cli.arguments import execute as carry_out
from aiperf.errors import BadConfiguration
from aiperf.native import program

HERE = Path(__file__).parent
EXPRESSIONS = (
    "ab",
    "a.c",
    "^a",
    "z$",
    "ab*c",
    "a+b|^q.*x$",
    "[a-f]+[^a-m ] ",
    "qqq?",
    "^$",
    "x|",
    "[]a]b",
    "[^]a]b$",
    "a[b-]",
)


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [each for each in programs if shutil.which(each) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def output(chosen: Tool, passes: int = 1) -> bytes:
    seconds, start = chosen.timed(chosen.built("-O2"), passes)
    assert seconds > 0 and start > 0
    return Path(chosen.words[-2]).read_bytes()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return tool("wordcount", tmp_path_factory.mktemp("text"), 60_000, 1, "")


@needs("cc")
def test_measured_adds_do_not_exceed_the_nominal_peak() -> None:
    """How near they come depends on what else runs: below DOUBTFUL of the peak there is a note."""
    peak = measure_peak(with_memory=False)

    assert peak.adds_per_cycle > 0
    if peak.nominal is None:
        pytest.skip(f"nominal peak: {peak.source}")
    assert peak.measured / peak.nominal <= 1.05
    assert peak.measured / peak.nominal >= DOUBTFUL or peak.notes


@needs("g++", "cc")
@pytest.mark.parametrize("ranks", [1, 3])
def test_sort_writes_the_sorted_records(ranks: int, tmp_path: Path) -> None:
    if ranks > 1 and shutil.which("mpicxx") is None:
        pytest.skip("not installed: mpicxx")
    chosen = tool("sort", tmp_path, 3000, ranks, "")

    records = np.fromfile(chosen.words[0], dtype=np.int64)

    assert output(chosen, passes=2) == np.sort(records).tobytes()
    assert records.size == 3000


@needs("g++", "cc")
def test_start_of_the_ranks_is_not_in_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tool("sort", tmp_path, 3000, 1, "")
    launcher = tmp_path / "mpirun"
    launcher.write_text('#!/bin/sh\nsleep 0.5\nshift 3\nexec "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    _, start = Tool("sort", chosen.words, 2).timed(chosen.built("-O2"), 1)

    assert start >= 0.5


@needs("g++", "cc")
def test_wordcount_equals_a_count_of_the_same_words(text: Tool) -> None:
    counted = (line.split() for line in output(text, passes=2).splitlines())

    assert {word: int(number) for number, word in counted} == Counter(Path(text.words[0]).read_bytes().split())


@needs("g++", "cc", "grep")
def test_grep_equals_grep(text: Tool) -> None:
    file, *others = text.words
    for expression in EXPRESSIONS:
        chosen = Tool("grep", (expression, file, *others), 1)
        expected = subprocess.run(
            ["grep", "-E", "-c", "--", expression, file],
            capture_output=True,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )
        assert output(chosen) == expected.stdout, expression


@needs("g++")
@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("a(b", "no ( )"),
        ("*a", "follow a character"),
        ("[a", "ends with ]"),
        ("a$b", "last"),
        ("a|" * 80, "at most 60"),
    ],
)
def test_faulty_expression_is_refused(expression: str, rule: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        execute([str(Tool("grep", (), 1).built("-O2")), expression, "/dev/null", "/dev/null", "1"])

    assert rule in str(caught.value)
    assert repr(expression) in str(caught.value)


@needs("g++", "clang-14")
@pytest.mark.parametrize("name", ["sort", "grep", "wordcount"])
def test_tools_equal_numbers_that_count_themselves(name: str, tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed (pip install 'aiperf-cluster[bops]')")
    chosen = tool(name, tmp_path, 2000 if name == "sort" else 20_000, 1, "a+b|^q.*x$")
    numbers = tmp_path / "numbers"
    words = [
        "g++",
        "-std=c++17",
        "-w",
        f'-DNUMBERS="{HERE / "numbers.h"}"',
        str(NATIVE / f"{name}.cpp"),
        "-o",
        str(numbers),
    ]
    subprocess.run(words, check=True)

    ended = subprocess.run([numbers, *chosen.words], capture_output=True, text=True, check=True)

    assert chosen.source_count("-O2").bops == int(ended.stderr.split("operations ")[1])


@needs("valgrind", "cc")
def test_equation_3_of_the_papers_loop_is_far_from_its_source(tmp_path: Path) -> None:
    source = tmp_path / "loop.c"
    source.write_text("long a[100];\nint main(void) { int j; for (j = 0; j < 100; j++) { a[j] = 0; } return 0; }\n")
    found = {}
    for level in ("-O0", "-O1", "-O2"):
        subprocess.run(["cc", level, str(source), "-o", str(tmp_path / "loop")], check=True)
        found[level] = counted_by_callgrind([str(tmp_path / "loop")])

    assert found["-O0"].difference == pytest.approx(303, abs=10)
    assert found["-O1"].difference == pytest.approx(202, abs=10)
    assert {each.origin for each in found.values()} == {"simulated by callgrind"}
    assert all(each.own_difference == each.difference for each in found.values())
    if found["-O2"].difference < 0:  # a compiler that writes `rep stos`
        assert found["-O2"].bops is None


def fake_perf(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "perf"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@needs("cc")
def test_counters_that_report_false_counts_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "; ".join(f'echo "1000000;;event{number};1;100.00" >> "$7"' for number in range(5))
    fake_perf(tmp_path, lines, monkeypatch)

    with pytest.raises(NotMeasured, match=r"counter of instructions is wrong by −100"):
        counted_by_perf(["true"])


def test_forbidden_counters_name_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_perf(
        tmp_path, 'echo "No permission to enable cycles event, see perf_event_paranoid" >&2; exit 255', monkeypatch
    )

    with pytest.raises(NotMeasured, match=r"sysctl kernel.perf_event_paranoid=2.*--cap-add PERFMON"):
        counted_by_perf(["true"])


def row_of(vendor: str) -> dict[str, Any]:
    rows = json.loads((Path(instructions.__file__).parent / "events.json").read_text())
    return next(row for row in rows if row["vendor"] == vendor)


COPY_IN_MIB = (
    'for last; do :; done; case "$last" in 0) n=100;; 10) n=%s;; *) n=512.5;; esac; echo "$n;MiB;r;1;100" > "$8"'
)


@needs("cc")
def test_traffic_is_that_of_trusted_memory_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_perf(tmp_path, COPY_IN_MIB % 1400, monkeypatch)  # 10 copies of 128 MiB, and 20 MiB of other programs

    assert controller_bytes(["true", "7"], ["r"]) == round(512.5 * 2**20)


@needs("cc")
def test_controllers_that_miss_a_known_copy_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_perf(tmp_path, COPY_IN_MIB % 700, monkeypatch)

    with pytest.raises(NotMeasured, match=r"wrong by −53.* on a copy of known size"):
        controller_bytes(["true", "7"], ["r"])


@needs("cc")
@pytest.mark.parametrize(("vendor", "traffic"), [("GenuineIntel", 42 * 64), ("AuthenticAMD", None)])
def test_traffic_names_the_misses_that_it_lacks(
    vendor: str, traffic: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last word of a command is the number of passes. There are no memory controllers."""
    counts = "$((4*last)) $last $last $last 14 >"
    script = (
        f"for last; do :; done; [ $last = true ] && last=0; case $5 in *instr*) printf '%s;;e;1;100\\n' {counts} $7;;"
    )
    fake_perf(tmp_path, f"{script} *) printf '%s;;e;1;100\\n' 30 12 > $7; esac", monkeypatch)
    row = row_of(vendor)
    monkeypatch.setattr(instructions, "events", lambda: {**row, "controllers": []})

    found = counted_by_perf(["true", "7"])

    assert (found.instructions, found.cycles, found.traffic_bytes) == (28, 14, traffic)
    assert row["misses_lack"] in f"{found.traffic_origin} {found.notes}"


@pytest.mark.parametrize(
    ("vendor", "lines", "operations"),
    [
        ("GenuineIntel", "10 20 30 40", 10 + 4 * 20 + 8 * 30 + 16 * 40),
        ("AuthenticAMD", "70", 70),
    ],
)
def test_floating_point_operations_are_weighted_counts(
    vendor: str, lines: str, operations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instructions, "events", lambda: row_of(vendor))
    fake_perf(tmp_path, f"printf '%s;;e;1;100\\n' {lines} > $7", monkeypatch)

    assert floating_point_operations(["true"]) == operations


def test_a_missing_floating_point_counter_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "events", lambda: row_of(""))
    with pytest.raises(NotMeasured, match="lists no floating-point events"):
        floating_point_operations(["true"])

    monkeypatch.setattr(instructions, "events", lambda: row_of("AuthenticAMD"))
    fake_perf(tmp_path, """echo "event syntax error: '..avx_ops.all:u}'" >&2; exit 129""", monkeypatch)
    with pytest.raises(NotMeasured, match="does not know the events"):
        floating_point_operations(["true"])


@needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
def test_peak_of_arm_runs_under_emulation(tmp_path: Path) -> None:
    words = [
        "aarch64-linux-gnu-gcc",
        "-static",
        "-O2",
        "-DBURSTS=2",
        str(NATIVE / "peak.c"),
        "-o",
        str(tmp_path / "peak"),
    ]
    subprocess.run(words, check=True)

    lines = subprocess.run(["qemu-aarch64", str(tmp_path / "peak")], check=True, capture_output=True, text=True).stdout

    rates = {name: float(done) / float(seconds) for name, done, seconds in map(str.split, lines.splitlines())}
    assert rates.keys() == {"clock", "add_64", "add_128", "fma_fp32", "fma_fp64"}
    assert all(rate > 0 for rate in rates.values())


def test_machine_without_a_peak_has_a_result_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    timed = Times((1.0,), 1.0, (0.9, 1.1)), 0.0

    found = result("a", ["a"], timed, None, "", None, own_peak())

    assert found.peak is None
    assert "riscv64" in found.notes[-1]


@needs("perf", "valgrind", "cc")
def test_counters_agree_with_callgrind() -> None:
    loop = str(program(NATIVE / "loop.c", compiler="cc", flags=("-O1",)))
    try:
        counted = counted_by_perf([loop, "1000000"])
    except NotMeasured as error:
        pytest.skip(f"hardware counters: {error}")

    assert counted.difference == pytest.approx(counted_by_callgrind([loop, "1000000"]).difference, rel=0.02)


def test_ratio_of_pairs_has_an_interval() -> None:
    value, (low, high) = ratio([2.0, 2.1, 1.9, 2.0], [1.0, 1.0, 1.0, 1.0])

    assert low < 2.0 < high
    assert value == pytest.approx(2.0, rel=0.01)


def test_fewer_than_ten_runs_are_refused() -> None:
    with pytest.raises(BadConfiguration, match="at least 10 runs"):
        times(lambda: 1.0, LEAST_REPEATS - 1)


@needs("cc")
def test_sizes_beyond_disk_or_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="Lower --size"):
        tool("sort", tmp_path, 10**13, 1, "")


@needs("cc")
def test_full_disk_while_generating_is_reported() -> None:
    generator = program(NATIVE / "generate.c", compiler="cc", flags=("-O2", "-lm"))

    with pytest.raises(BadConfiguration, match="No space left on device"):
        execute([str(generator), "text", "1000000", "0"], output=Path("/dev/full"))


@needs("valgrind", "cc")
def test_run_writes_a_result_and_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aiperf.bops.peak._bandwidth", lambda: (1e10, 1))
    loop = str(program(NATIVE / "loop.c", compiler="cc", flags=("-O1",)))

    assert carry_out(["bops", "run", "--simulate", "--json", "--out", str(tmp_path), "--", loop, "1000"]) == 0

    printed = json.loads(capsys.readouterr().out)
    name = Path(loop).name
    assert printed == json.loads((tmp_path / f"{name}.json").read_text())
    assert "Roofline" in (tmp_path / f"{name}.html").read_text()
    assert {"instructions", "branches", "loads", "stores", "bops", "origin", "source_bops", "deviation", "seconds",
            "bops_per_second", "efficiency", "traffic_bytes", "intensity"} <= printed.keys()  # fmt: skip


def test_roofline_of_a_network_needs_no_such_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["roofline", "resnet50_v1_5", "--device", "NVIDIA A100-SXM4-80GB", "--out", str(tmp_path / "page.html")]

    assert carry_out(words) == 0

    assert "Shortest step 68.75 ms: 3\u202f724 images/s" in capsys.readouterr().out.replace("\u00a0", " ")
    assert "convolution, forward" in (tmp_path / "page.html").read_text()
