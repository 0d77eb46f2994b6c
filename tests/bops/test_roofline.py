"""Roofline arithmetic against the figures of the paper, and networks against worked figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from aiperf.__main__ import main as command_line
from aiperf.bops import networks, roofline
from aiperf.bops.page import (
    added_ceiling,
    added_roof,
    compared,
    judged,
    label_table,
    network_page,
    program_page,
    published,
)
from aiperf.bops.peak import MachinePeak, processor_of, processors
from aiperf.bops.result import ProgramResult, read_result
from aiperf.bops.roofline import Roof, RooflinePoint
from aiperf.bops.rules import table as rules_table
from aiperf.cli.arguments import execute as carry_out
from aiperf.errors import BadConfiguration
from morphism import cost, start
from tests.builders.report_journal import Shape, invented
from tests.rigs.user import write_run

E5645 = (Roof("adds", 86.4e9, "data sheet"), Roof("memory", 13.2e9, "measured", is_memory=True))
TABLE_12 = {
    "Sort": (8.8, 11.7, "calculation", 10.2),
    "Grep": (4.6, 1.2, "memory", 29.0),
    "WordCount": (3.8, 3.2, "memory", 9.0),
    "Bayes": (5.1, 51, "calculation", 5.9),
    "Kmeans": (5.0, 25, "calculation", 5.8),
    "RankServ": (8.2, 9.57, "calculation", 9.5),
}
TABLE_2 = {"Sort": 0.01, "Grep": 0.002, "WordCount": 0.01, "Bayes": 0.2, "Kmeans": 0.5, "RankServ": 0.6}


def test_peaks_of_the_paper_follow_from_ports_and_bits() -> None:
    nominal = {
        row.processor.split()[-1]: roofline.nominal_peak(row.cores, row.clock_hertz, row.adds_per_cycle) / 1e9
        for row in processors()
        if row.cores is not None and row.clock_hertz is not None
    }

    assert nominal == {"E5645": pytest.approx(86.4), "E5310": pytest.approx(38.4), "D510": pytest.approx(12.8)}


def test_efficiency_and_ceilings_of_the_paper() -> None:
    rate = 529e9 / 40

    assert rate / 1e9 == pytest.approx(13.2, abs=0.05)
    assert rate / 86.4e9 == pytest.approx(0.153, abs=0.0005)
    assert roofline.ceiling(86.4e9, 0.5, 2, 4) == pytest.approx(21.6e9)
    assert roofline.ceiling(86.4e9, 0.5, 2, 4, 2) == pytest.approx(43.2e9)


def test_labels_and_shares_of_table_12() -> None:
    points = [RooflinePoint(name, oi, rate * 1e9) for name, (rate, oi, *_) in TABLE_12.items()]

    by_name = {each.point.name: each for each in roofline.labels(points, E5645)}

    assert {name: each.bottleneck for name, each in by_name.items()} == {name: row[2] for name, row in TABLE_12.items()}
    assert {name: round(100 * each.share, 1) for name, each in by_name.items()} == {
        name: row[3] for name, row in TABLE_12.items()
    }


def test_wordcount_turns_to_calculation_under_the_ilp_ceiling() -> None:
    ceiling = Roof("ILP", roofline.ceiling(86.4e9, 0.5, 2, 4), "published")
    judged = roofline.labels([RooflinePoint("WordCount", 3.2, 3.8e9)], (*E5645, ceiling))

    assert roofline.ridge(ceiling.figure, 13.2e9) == pytest.approx(1.64, abs=0.005)
    assert [(each.roof, each.bottleneck) for each in judged] == [("adds", "memory"), ("ILP", "calculation")]


def test_every_program_of_table_2_is_bound_by_memory() -> None:
    assert roofline.ridge(57.6e9, 13.2e9) == pytest.approx(4.36, abs=0.005)
    assert {roofline.bottleneck(oi, 57.6e9, 13.2e9) for oi in TABLE_2.values()} == {"memory"}
    assert sum(TABLE_2.values()) / len(TABLE_2) == pytest.approx(0.22, abs=0.001)  # printed: 0.05


@pytest.mark.parametrize(
    ("former", "latter", "percent", "printed"),
    [(5.0, 11.3, 126, 120), (9.5, 12.2, 28.4, 48), (8.2, 12.2, 48.8, 48), (4.9, 5.5, 12.2, 16), (4.5, 5.0, 11.1, 10)],
)
def test_gains_of_the_tables_differ_from_the_printed(
    former: float, latter: float, percent: float, printed: int
) -> None:
    recomputed = 100 * (latter / former - 1)

    assert recomputed == pytest.approx(percent, abs=0.1)
    assert round(recomputed) != printed


def test_efficiencies_of_table_10_differ_from_the_printed() -> None:
    assert [round(100 * rate / 86.4, 1) for rate in (41, 12, 13)] == [47.5, 13.9, 15.0]  # printed: 47, 18, 20
    assert pytest.approx(1.3, abs=0.02) == 12.2 / 9.3  # GB/s of RankServ in Table 14, printed: 0.2


def resnet50(model: str = "NVIDIA A100-SXM4-80GB") -> networks.NetworkRoofline:
    return networks.network_roofline(
        "resnet50_v1_5", start("resnet50_v1_5"), 256, "bf16", networks.device(model, "bf16")
    )


@pytest.mark.parametrize(
    ("model", "milliseconds", "share"), [("NVIDIA A100-SXM4-80GB", 68.75, 29.2), ("NVIDIA H200", 27.61, 22.9)]
)
def test_floor_of_a_step_of_resnet50(model: str, milliseconds: float, share: float) -> None:
    found = resnet50(model)

    assert found.floor_seconds * 1e3 == pytest.approx(milliseconds, abs=0.005)
    assert found.floor_share * 100 == pytest.approx(share, abs=0.05)


def test_intensities_of_the_kinds_of_layers() -> None:
    forward = {each.kind: each.intensity for each in resnet50().kinds if each.pass_name == "forward"}

    assert forward["convolution"] == pytest.approx(186.9, abs=0.05)
    assert forward["batch_normalisation"] == pytest.approx(1.167, abs=0.001)
    assert [forward["relu"], forward["add"]] == pytest.approx([0.25, 1 / 6])


def test_convolutions_right_of_the_ridge() -> None:
    shares = {}
    for model in ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"):
        found = resnet50(model)
        ridge = roofline.ridge(found.flops_per_second, found.memory_bytes_per_second)
        convolutions = [each for each in found.layers if (each.kind, each.pass_name) == ("convolution", "forward")]
        right = sum(each.flops for each in convolutions if each.intensity >= ridge)
        shares[model] = round(100 * right / sum(each.flops for each in convolutions))

    assert shares == {"NVIDIA A100-SXM4-80GB": 75, "NVIDIA H100 80GB HBM3": 45}


@pytest.mark.parametrize("name", ["resnet20", "resnet50_v1_5", "digits_small"])
def test_operations_of_the_layers_add_up_to_flops(name: str) -> None:
    graph = start(name)
    found = networks.network_roofline(name, graph, 1, "fp32", networks.DeviceLimits("any", 1e12, 1e11, "given"))

    assert sum(each.flops for each in found.layers) == cost(graph).training_flops


def test_unknown_device_names_the_known_ones() -> None:
    with pytest.raises(BadConfiguration, match=r"found 'A1000'.*NVIDIA A100"):
        networks.device("A1000", "bf16")


def test_processors_are_found_by_model_number_and_feature() -> None:
    zen5 = "vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\nmodel name : AMD EPYC 9555\n"
    hidden = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 999\nmodel name : Xeon\nflags : sse amx_tile\n"
    found = [processor_of(text) for text in (zen5, hidden, "CPU part : 0xd4f\n", "model : 1\ncpu family : 1\n")]

    assert [None if row is None else row.adds_per_cycle for row in found] == [32, 16, 8, None]
    assert [None if row is None else row.fma_flops(2, 1e9) for row in found] == [128e9, 128e9, 64e9, None]


def test_every_rule_and_every_processor_has_a_source() -> None:
    assert all(re.match(r"\[[PD]\]", rule.source) for rule in rules_table())
    assert all(len(row.source) > 20 for row in processors())


def peak(**changes: object) -> MachinePeak:
    values = {
        "model": "E5645", "cores": 6, "clock_hertz": 2.4e9, "adds_per_cycle": 6, "measured": 86.4e9, "nominal": 86.4e9,
        "per_core": {"add_64": 7e9}, "peak_ipc": 4, "memory_bytes_per_second": 13.2e9, "array_bytes": 1 << 27,
        "source": "Table 8", "load": 0.1, "notes": [],
    }  # fmt: skip
    return msgspec.convert({**values, **changes}, MachinePeak)


def result(name: str, intensity: float | None, seconds: float, on: MachinePeak | None = None) -> ProgramResult:
    values = {
        "kind": "program", "name": name, "command": [name], "source": None, "deviation": None, "not_measured": "",
        "instructions": None, "branches": None, "loads": None, "stores": None, "difference": None, "own_difference": None,
        "bops": None, "by_object": {}, "notes": [], "bops_per_second": 1e9 / seconds,
        "bops_per_second_interval": [0.9e9 / seconds, 1.1e9 / seconds],
        "efficiency": 0.1, "intensity": intensity, "traffic_bytes": 10,
        "traffic_origin": "simulated misses of the last cache", "origin": "simulated by callgrind",
        "peak": msgspec.to_builtins(on or peak()), "load": 0.1,
        "seconds": {
            "runs": [seconds * (1 + each / 100) for each in range(10)], "median": seconds, "interval": [seconds, seconds]
        },
    }  # fmt: skip
    return msgspec.convert(values, ProgramResult)


def test_page_has_a_label_for_each_point_and_roof() -> None:
    page = program_page(
        judged([result("Sort", 11.7, 1.0), result("Grep", 1.2, 1.0)], [added_roof("dram=13.8e9B/s")], []),
        published(["sort"]),
    )

    page = page.replace("\u00a0", " ")
    for words in ("Sort (E5645)", "integer adds 86.4 GBOPS (measured)", "dram 13.8 GB/s (given)", "share of the bound"):
        assert words in page


def test_written_result_is_read_as_the_same_result(tmp_path: Path) -> None:
    written = result("Sort", 11.7, 1.0)
    file = tmp_path / "sort.json"
    file.write_text(json.dumps(msgspec.to_builtins(written)))

    assert read_result(file) == written


def test_result_without_traffic_has_no_point() -> None:
    page = program_page(judged([result("Sort", None, 1.0)], [], []), [])

    assert "No picture" in page
    assert "<svg" not in page


def test_two_results_of_one_program_have_a_ratio_with_interval() -> None:
    (line,) = compared([result("Sort", 11.7, seconds) for seconds in (2.0, 1.0)])

    assert line.startswith("Sort: second ÷ first 2.000 (")


def test_each_machine_has_its_own_roofs() -> None:
    """The second machine has a tenth of the first one's peaks."""
    slow = peak(model="D510", measured=8.64e9, nominal=None, per_core={"add_64": 7e8}, memory_bytes_per_second=1.32e9)
    results = [result("Sort", 11.7, 1.0), result("Sort", 11.7, 1.0, slow)]

    programs = judged(results, [added_roof("given=2e9")], ["ILP=0.5,2,1"])

    shares = {(each.point.name, each.roof): round(100 * each.share, 2) for each in programs.labels}
    assert shares["Sort, E5645", "integer adds, E5645"] == 1.16
    assert shares["Sort, D510", "integer adds, D510"] == 11.57
    assert shares["Sort, D510", "ILP, D510"] == 46.3
    assert {shares[f"Sort, {model}", "given"] for model in ("E5645", "D510")} == {50}
    assert len(programs.labels) == 5 + 4
    assert "integer adds, D510 8.64 GBOPS" in program_page(programs, []).replace("\u00a0", " ")


def test_page_from_data_sheets_shows_no_measured_share() -> None:
    page = network_page(resnet50(), [added_roof("half=156e12")])

    assert "share of the bound" not in page
    assert "served by a cache" not in page
    assert "half" in page
    (without,) = re.findall("Without operations[^<]*", page)
    assert "batch normalisation, backward" in without


def test_rounding_is_not_served_by_a_cache() -> None:
    for rate, is_cached in ((86.4e9 * 1.0004, False), (86.4e9 * 1.01, True)):
        table = label_table(roofline.labels([RooflinePoint("a", 50, rate)], E5645), "BOP")
        assert table is not None and bool(table.rows[0][-1].second_line) == is_cached


OPTIONS = {
    "ceiling": "ILP=0.5,2,1", "published": "", "roof": "a=1e9", "out": "page.html", "device": "NVIDIA H200", "peak": "p.json",
    "precision": "fp32", "measure": "", "batch": "2", "image": "32", "channels": "3", "classes": "10",
}  # fmt: skip


def test_options_without_effect_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sort.json").write_text(json.dumps(msgspec.to_builtins(result("sort", 11.7, 1.0))))
    Path("run").mkdir()
    subjects = {"sort.json": ("ceiling", "published", "roof", "out"), "resnet20": tuple(OPTIONS)[2:], "run": ()}

    for subject, used in subjects.items():
        for option, value in OPTIONS.items():
            if option not in used:
                with pytest.raises(BadConfiguration, match=f"--{option} cannot be combined with"):
                    carry_out(["roofline", subject, f"--{option}", *filter(None, [value])])
    with pytest.raises(BadConfiguration, match="--peak cannot be combined with --device"):
        carry_out(["roofline", "resnet20", "--device", "NVIDIA H200", "--peak", "peak.json"])
    assert carry_out(["roofline", "sort.json", "--ceiling", "ILP=0.5,2,1", "--out", "page.html"]) == 0
    assert "ILP" in Path("page.html").read_text()


@pytest.mark.parametrize("text", ["dram", "dram=", "dram=fast", "=3", "dram=-1", "dram=nan", "dram=inf"])
def test_roof_without_a_positive_figure_is_refused(text: str) -> None:
    with pytest.raises(BadConfiguration, match="NAME=FIGURE"):
        added_roof(text)


def test_ceiling_takes_the_measured_ipc() -> None:
    assert added_ceiling("ILP=0.5,measured,2", peak(), 2.0).figure == added_ceiling("ILP=0.5,2,2", peak(), None).figure
    with pytest.raises(BadConfiguration, match="no counters did count"):
        added_ceiling("ILP=0.5,measured,2", peak(), None)


@pytest.mark.parametrize("text", ["ILP", "=0.5,2,1", "ILP=0.5,2", "ILP=0,2,1", "ILP=nan,2,1"])
def test_ceiling_without_three_positive_figures_is_refused(text: str) -> None:
    with pytest.raises(BadConfiguration, match="numbers above 0"):
        added_ceiling(text, peak(), None)


@pytest.mark.parametrize("content", ["no JSON", "{}", '{"per_core": {"fma_fp32": 1e9}, "cores": 2, "model": "a"}'])
def test_roofline_names_a_wrong_peak_file(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peak = tmp_path / "peak.json"
    peak.write_text(content)

    assert command_line(["roofline", "resnet20", "--precision", "fp32", "--peak", str(peak)]) == 2
    assert "output of `bops peak --json`" in (said := capsys.readouterr().err) and "repeat that command" in said


def test_roofline_of_a_run_has_the_parts_of_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = write_run(tmp_path / "run", invented(Shape(device="NVIDIA A100-SXM4-80GB", precision="bf16")))

    assert carry_out(["roofline", str(written), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["busy_seconds"] > found["arithmetic_seconds"] > 0
