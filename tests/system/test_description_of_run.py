"""System of a run in its journal: each description once, kinds of nodes, differences, and the form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.cli.verbs.runs.preflight import parts as parts_of_preflight
from aiperf.config import as_plain, configure, from_plain
from aiperf.drive.preflight import lines as lines_of_a_run
from aiperf.drive.preflight import node_checks
from aiperf.errors import BadConfiguration
from aiperf.journal.events import NodeChecked, RunStarted
from aiperf.measure.probe import NodeReadings, ProbeReading
from aiperf.page.terminal import parts_lines
from aiperf.preflight import PreflightConf
from aiperf.report.gather import gather
from aiperf.report.html import page
from aiperf.report.sections.system import described_nodes, system
from aiperf.report.write import closing_lines
from aiperf.system.describe import hash_of
from aiperf.system.form import FIELDS, OPTIONAL
from aiperf.system.of_run import SystemDescription, system_description
from tests.builders.report_journal import Shape, invented

SMALL = invented(Shape(duration=60.0, warmup=10.0))


def measured(name: str, description: dict[str, Any] | None) -> NodeReadings:
    """Return a node as preflight measured it. None if its description failed."""
    if description is None:
        reading = ProbeReading(probe="system", unit="text", failed="no answer in 180 s")
    else:
        facts = {"hash": hash_of(description), "description": description}
        reading = ProbeReading(probe="system", unit="text", facts=facts)
    return NodeReadings(node=name, address=name, host=name, kind="x", is_head=False, readings={"system": reading})


OLD, NEW = {"driver": "550.54", "kernel": "6.1"}, {"driver": "560.35", "kernel": "6.1"}


def checks() -> list[NodeChecked]:
    """64 nodes at the start, two of them with an old driver, and one that joined later."""
    nodes = [measured(f"n{number}", OLD if number in (7, 8) else NEW) for number in range(64)]
    late = [measured("late", OLD)]
    return [*node_checks(nodes, nodes, PreflightConf()), *node_checks(late, [*nodes, *late], PreflightConf())]


def first(**form: Any) -> RunStarted:
    line = SMALL[0]
    assert isinstance(line, RunStarted)
    return msgspec.structs.replace(line, config={**line.config, "system": {**dict.fromkeys(FIELDS), **form}})


def of(*lines: NodeChecked) -> SystemDescription:
    return system_description(first().config, lines)


def test_a_journal_stores_each_description_once() -> None:
    lines = checks()

    written = [line for line in lines if "description" in line.readings["system"]["facts"]]
    system = of(*lines)

    assert [line.host for line in written] == ["n0", "n7"]
    assert [(len(kind.nodes), dict(kind.description)) for kind in system.kinds] == [(62, NEW), (3, OLD)]
    assert system.nodes == 65 and system.not_described == ()


def test_four_thousand_equal_nodes_add_one_description() -> None:
    description = {"environment": {"NCCL_DEBUG": "x" * 4000}}
    nodes = [measured(f"n{number}", description) for number in range(4096)]

    size = sum(len(msgspec.json.encode(line.readings)) for line in node_checks(nodes, nodes, PreflightConf()))

    assert size < 4096 * 200 + 5000


def test_the_last_check_of_a_node_counts() -> None:
    node = [measured("n0", OLD)], [measured("n0", NEW)]
    lines = [line for one in node for line in node_checks(one, one, PreflightConf())]

    assert [(kind.nodes, dict(kind.description)) for kind in of(*lines).kinds] == [(("n0",), NEW)]


def test_nodes_that_were_not_described_are_named_with_the_reason() -> None:
    nodes = [measured("n0", NEW), measured("n1", None)]
    unheard = NodeChecked(at=0.0, address="n2", host="n2", readings={}, faults=[], notes=[], excluded=False)
    (whole,) = node_checks([measured("n3", OLD)], [measured("n3", OLD)], PreflightConf())
    hash_alone = {"system": {"facts": {"hash": whole.readings["system"]["facts"]["hash"]}}}

    system = of(
        *node_checks(nodes, nodes, PreflightConf()), unheard, msgspec.structs.replace(whole, readings=hash_alone)
    )

    assert dict(system.not_described) == {
        "n1": "no answer in 180 s",
        "n2": "this journal describes no nodes",
        "n3": "no line has the description of its hash",
    }


@pytest.mark.parametrize(
    "readings",
    [
        {"system": 3},
        {"system": {"facts": []}},
        {"system": {"facts": {"hash": 3, "description": {}}}},
        {"system": {"facts": {"hash": "a", "description": [1]}}},
        {"system": {"facts": {"hash": "a", "description": {"x": [{"name": "a"}, 3], "y": None, "z": [[]]}}}},
    ],
    ids=str,
)
def test_readings_that_nobody_here_wrote_make_no_trouble(readings: dict[str, Any]) -> None:
    line = NodeChecked(at=0.0, address="a", host="a", readings=readings, faults=[], notes=[], excluded=False)

    report = gather([first(), line, *SMALL[1:]])

    assert all(cell.text is not None for table in described_nodes(report) for row in table.rows for cell in row)


def test_terminal_and_page_say_which_nodes_differ_and_in_what() -> None:
    told = "3 of 65 nodes differ: driver 550.54 on late n7 n8, else 560.35"

    report = gather([first(), *checks(), *SMALL[1:]])

    assert f"  note: {told}" in closing_lines(report)
    text = page(report, [system(report)])
    assert told in text and "Differences between nodes" in text and "62 of 65 nodes: " in text


def test_preflight_names_the_first_five_differences() -> None:
    told = "3 of 65 nodes differ: driver 550.54 on late n7 n8, else 560.35"
    many = [measured("a", {f"part{number}": 1 for number in range(9)}), measured("b", {})]

    assert f"  {told}" in list(lines_of_a_run(checks()))
    assert f"note: {told}" in list(parts_lines(parts_of_preflight(checks())))
    said = [line for line in lines_of_a_run(node_checks(many, many, PreflightConf())) if "differ" in line]
    assert len(said) == 6 and said[-1] == "  nodes differ in 4 more parts, all in the report"


# --- the form


def test_typed_fields_override_the_forms_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("name: Big Iron\nsite: A Centre\nnodes_total: 512\npower_share: 0.5\n")

    conf = configure([f"system.file={file}", "system.site=Another Centre"])

    told = conf.system
    assert (told.name, told.site, told.nodes_total, told.power_share) == ("Big Iron", "Another Centre", 512, 0.5)
    file.unlink()
    assert from_plain(as_plain(conf)).system == conf.system


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("nmae: x\n", "unknown field 'nmae'"),
        ("year: old\n", "site.yaml"),
        ("- a\n", "is a YAML file of FIELD: value lines"),
        ("a: [\n", "is not valid YAML"),
        ("file: other.yaml\n", "unknown field 'file'"),
        ("power_share: 2\n", "is between 0 and 1"),
    ],
)
def test_a_file_that_is_no_form_is_refused(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(content)

    with pytest.raises(BadConfiguration, match=why):
        configure([f"system.file={file}"])


def test_a_file_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(
        BadConfiguration,
        match=r"system\.file is a YAML file of FIELD: value lines, but found 'nowhere\.yaml', which is not there",
    ):
        configure(["system.file=nowhere.yaml"])


def test_an_unfinished_form_names_its_empty_fields() -> None:
    begun = gather([first(name="Big Iron", cooling="air"), *SMALL[1:]])
    finished = gather([first(**dict.fromkeys(FIELDS, "x")), *SMALL[1:]])
    none = gather(SMALL)

    (note,) = (line for line in closing_lines(begun) if "form is incomplete" in line)
    assert all(name in note for name in FIELDS if name not in ("name", "cooling", *OPTIONAL))
    assert not any("form is incomplete" in line for line in (*closing_lines(finished), *closing_lines(none)))
    assert set(none.system.unfinished) == set(FIELDS) - OPTIONAL
