"""Outputs of HPL, traces and published lists as other programs and sites write them."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.__main__ import main
from aiperf.errors import BadConfiguration
from aiperf.hpl.output import Output, parsed
from aiperf.scaling.standing import named_entry, read_list
from aiperf.train.tracing import trace_file
from aiperf.train.tracing.kernel_trace import kernel_times
from aiperf.train.tracing.trace_file import NoTrace, Trace, read_trace

DATA = Path(__file__).parent / "data"
PLAIN = (DATA / "hpl23_plain.out").read_text()
NVIDIA = (DATA / "hpl_nvidia.out").read_text()
PREFIXES: dict[str, Callable[[int], str]] = {
    "srun --label": lambda line: " 0: ",
    "mpirun --tag-output": lambda line: "[1,0]<stdout>:",
    "prterun --output tag": lambda line: "[prterun-node7-2211@1,0]<stdout>: ",
    "mpiexec -l": lambda line: "[0] ",
    "pdsh": lambda line: "gpu-07: ",
    "time stamps": lambda line: f"2025-03-03T04:{line // 60:02}:{line % 60:02}.{line}Z ",
    "date and rank": lambda line: f"Mon Mar {3 + line // 40} 04:05:{line % 60:02} 2025<stdout>:",
    "container logs": lambda line: f"\x1b[32mhpl-worker-0 | {line}\x1b[0m ",
    "indentation": lambda line: "    ",
    "a report's quotation": lambda line: "> | ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_launchers_prefix_changes_no_figure(prefix: Callable[[int], str]) -> None:
    lines = ["loading modules …", *(prefix(number) + line for number, line in enumerate(PLAIN.splitlines()))]

    assert parsed("\n".join(lines), "HPL.out") == parsed(PLAIN, "HPL.out")


def test_two_prefixes_are_two_outputs() -> None:
    with pytest.raises(BadConfiguration, match="lines of an output have one prefix"):
        parsed(PLAIN.replace("WR11C2R4       88320", "[1,3]<stderr>: WR11C2R4       88320"), "HPL.out")


@pytest.mark.parametrize("column", ["7.361e+02", "( 7.361e+02)", "(736.1)", "2.208e+03 ( 7.361e+02)"])
def test_columns_that_follow_from_gflops_are_allowed(column: str) -> None:
    (run,) = parsed(NVIDIA.replace("( 7.361e+02)", column), "HPL.out").runs

    assert (run.n, run.p, run.q, run.gflops, run.pmap) == (44160, 3, 4, 8833, "column")


@pytest.mark.parametrize(
    ("column", "words"), [("( 7.9e+02)", "behind 8833 of 12 ranks"), ("7.361e+02 fast", "numbers")]
)
def test_other_columns_are_refused(column: str, words: str) -> None:
    with pytest.raises(BadConfiguration, match=words):
        parsed(NVIDIA.replace("( 7.361e+02)", column), "HPL.out")


def short(gflops: str) -> str:
    result = f"WR00L2L2          29     4     4     3               0.00             {gflops}\n"
    check = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   4.40719904e-03 ...... PASSED\n"
    return PLAIN.replace("End of Tests.", f"{result}{check}End of Tests.")


def test_a_time_of_0_00_s_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "HPL.out").write_text(short("9.9800e-03"))
    system = Path(__file__).parents[2] / "examples" / "hpl" / "p100.yaml"

    status = main(["hpl", "explain", str(tmp_path / "HPL.out"), "--system", str(system)])

    output = " ".join(capsys.readouterr().out.split())
    assert status == 0 and output.count("predicted") == 2
    assert "left out, since HPL printed 0.00 s: N 29, 4 x 3" in output
    assert parsed(short("9.9800e-03"), "") == Output(parsed(PLAIN, "").runs, ("N 29, 4 x 3",))


def test_a_time_of_0_00_s_contradicts_a_slow_rate() -> None:
    with pytest.raises(BadConfiguration, match="the output was changed"):
        parsed(short("1.0000e-03"), "HPL.out")


def test_every_residual_check_must_pass() -> None:
    text = (DATA / "hpl10_third_fails.out").read_text()
    with pytest.raises(BadConfiguration, match=r"has FAILED in line 17 \(N 44160\)"):
        parsed(text, "HPL.out")

    assert len(parsed(text.replace("FAILED", "PASSED"), "HPL.out").runs) == 1


@pytest.mark.parametrize(
    "name", ["HPL-MxP-NVIDIA 24.3", "HPL-AI Mixed-Precision Benchmark", "****** HPL MxP Result ******"]
)
def test_mixed_precision_is_named(name: str) -> None:
    mixed = parsed(f"{name}\n{PLAIN}", "HPL.out")
    assert mixed.mixed in ("HPL-MxP", "HPL-AI", "HPL MxP") and mixed.runs == parsed(PLAIN, "HPL.out").runs
    assert parsed(f"/home/me/hpl-ai/bin/xhpl\n{PLAIN}", "HPL.out") == parsed(PLAIN, "HPL.out")


MIXED = """****** HPL MxP Result    ******
   EPS           . . . . . . . . . . . . . . . . .          =    2.000000E-16
 ||Ax-b||_oo / (EPS * (||A||_oo * ||x||_oo + ||b||_oo) * N) =    1.234567E-04 ...... PASSED

   N = 88064, NB = 1024, NPROW = 2, NPCOL = 2, SLOPPY-TYPE = 1
      GFLOPS = 1.5000e+05, per GPU =   37500.00 ------ The HPL-MxP performance to report
   LU GFLOPS = 6.0000e+05, per GPU =  150000.00 ------ The performance excluding the iterative solver part

****** HPL MxP Result    ******
"""


def test_the_factorisation_of_hpl_mxp_is_read() -> None:
    (run,) = parsed(MIXED, "HPL.out").runs
    assert (run.n, run.nb, run.p, run.q, run.gflops) == (88_064, 1024, 2, 2, 6e5)
    assert run.seconds == pytest.approx(2 / 3 * 88_064**3 / 6e14, rel=1e-3)
    for wrong in (
        MIXED.replace("PASSED", "FAILED"),
        MIXED.replace("...... PASSED", ""),
        MIXED.replace("NB = 1024", ""),
    ):
        with pytest.raises(BadConfiguration, match="residual check that PASSED, N, NB"):
            parsed(wrong, "HPL.out")


EVENTS = [
    {
        "ph": "X",
        "cat": "kernel",
        "name": f"ampere_sgemm_{number}",
        "pid": 0,
        "tid": 7,
        "ts": number,
        "dur": 2.0,
        "args": {"a": [1]},
    }
    for number in range(5)
]


def trace_of(lines: list[str], folder: Path, end: str = "\n]}") -> Trace:
    path = folder / "trace.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join(lines) + end)
    return read_trace(path)


@pytest.mark.parametrize("name", ["config.py(0): \x07\x1b", r"C:\Users\x\train.py", "a\tb\\", "\x00"])
def test_a_name_with_odd_characters_costs_no_event(name: str, tmp_path: Path) -> None:
    lines = [json.dumps(each) for each in EVENTS]
    lines[2] = lines[2].replace("ampere_sgemm_2", name if name[-1] != "\\" else name + "\\")

    found = trace_of(lines, tmp_path)

    assert (len(found.events), found.unreadable, found.is_truncated) == (5, 0, False)


@given(st.data())
def test_a_torn_record_costs_one_event_or_the_next(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    lines = [json.dumps(each) for each in EVENTS]
    torn = data.draw(st.integers(0, 3))
    cut = data.draw(st.integers(1, len(lines[torn]) - 1))
    is_overwritten = data.draw(st.booleans())
    lines[torn] = lines[torn][:cut] + (lines[torn + 1][:cut] if is_overwritten else "")

    found = trace_of(lines, folder)

    assert not found.is_truncated and 1 <= found.unreadable <= 2
    assert [each for each in EVENTS if each not in found.events] == EVENTS[torn : torn + 5 - len(found.events)]
    assert len(found.events) >= 3


@pytest.mark.parametrize("value", ["true", "[]", "{}", "null", '"x"', "1e999", "9" * 5000])
@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "tid", "ts", "dur"])
def test_a_value_of_a_wrong_type_costs_its_event_alone(key: str, value: str, tmp_path: Path) -> None:
    lines = [json.dumps(each) for each in EVENTS]
    lines[2] = lines[2].replace(f'"{key}": {json.dumps(EVENTS[2][key])}', f'"{key}": {value}')

    found = trace_of(lines, tmp_path)

    assert len(found.events) + found.unreadable == 5 and not found.is_truncated
    assert kernel_times(found).seconds["GEMM"] in (8e-6, 10e-6)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_compressed_trace_is_read_as_far_as_it_goes(share: float, tmp_path: Path) -> None:
    whole = trace_of([json.dumps(each) for each in EVENTS * 500], tmp_path)
    content = gzip.compress((tmp_path / "trace.json").read_bytes())
    (tmp_path / "trace.json.gz").write_bytes(content[: int(share * len(content))])

    found = read_trace(tmp_path / "trace.json.gz")

    assert found.is_truncated == (share < 1) and found.events == whole.events[: len(found.events)]
    assert len(found.events) > 0.5 * share * len(whole.events)


def test_a_small_gzip_file_takes_no_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "LARGEST", 1 << 22)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b"[" + bytes(1 << 20)) * 5)
    with pytest.raises(NoTrace, match="has more than 4194304 bytes after decompression"):
        read_trace(tmp_path / "bomb.json.gz")


LIST = """Rank,Name,Computer,Site,Rmax [TFlop/s],Power (kW)
1,Alpha,"Big System, 64C 2GHz",Somewhere,1206000,22786
2,,"Cluster B, 32C, InfiniBand",Somewhere,0.0005,10
3,,"Cluster B, 32C, InfiniBand",Elsewhere,0.0003,
4,,,,0.0001,
"""


def test_an_entry_without_a_name_is_called_by_its_computer(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(LIST)

    entries = read_list(tmp_path / "list.csv", {})

    second = "Cluster B, 32C, InfiniBand, Somewhere"
    assert [each.name for each in entries] == ["Alpha", second, second.replace("Some", "Else"), "rank 4"]
    assert named_entry(entries, "cluster b, 32c, infiniband, some").rank == 2


def test_a_unit_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(LIST.replace(" [TFlop/s]", "").replace(" (kW)", ""))

    (first, *_) = read_list(tmp_path / "list.csv", {}, {"rmax": "TFlop/s", "power": "kW"})

    assert (first.flops_per_second, first.watts) == (1206000e12, 22786e3)
    with pytest.raises(BadConfiguration, match="--unit rmax=TFlop/s"):
        read_list(tmp_path / "list.csv", {})


SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
)
SHARED = '<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">{}</sst>'
ROWS = (
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Name</t></is></c><c r="D1" t="s"><v>1</v></c></row>'
    '<row r="2"/><row r="3"><c r="A3"><v>1</v></c><c r="B3" t="str"><v>Alpha</v></c><c r="D3"><v>1.206E6</v></c></row>'
)


def workbook(folder: Path, sheet: str = SHEET.format(ROWS)) -> Path:
    """Workbook with an empty column C and an empty row 2."""
    with zipfile.ZipFile(folder / "TOP500.xlsx", "w", zipfile.ZIP_DEFLATED) as parts:
        texts = "<si><t>Rank</t></si><si><r><t>Rmax </t></r><r><t>[TFlop/s]</t></r></si>"
        parts.writestr("xl/sharedStrings.xml", SHARED.format(texts))
        parts.writestr("xl/worksheets/sheet1.xml", sheet)
    return folder / "TOP500.xlsx"


def test_a_workbook_is_read_like_its_csv_file(tmp_path: Path) -> None:
    (entry,) = read_list(workbook(tmp_path), {})

    assert (entry.rank, entry.name, entry.flops_per_second, entry.watts) == (1, "Alpha", 1206000e12, None)


@pytest.mark.parametrize(
    "sheet",
    [
        "",
        "<a>" * 100_000,
        SHEET.format(ROWS.replace("<v>1</v>", "<v>99</v>")),
        SHEET.format(ROWS.replace("<v>1</v>", "<v>x</v>")),
        '<!DOCTYPE a [<!ENTITY b "bb">]>' + SHEET.format(ROWS),
        " " * ((64 << 20) + 1),
    ],
    ids=["empty", "deep", "no such text", "no number", "entities", "64 MB"],
)
def test_a_damaged_workbook_is_refused_in_words(sheet: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"which is no workbook that can be read .*save it as CSV"):
        read_list(workbook(tmp_path, sheet), {})
