"""Every output of --json has a schema in the package, and --out FILE writes the same."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

from aiperf.__main__ import main
from aiperf.cli.arguments import VERBS, parser_of
from tests.builders.json_output import follows_its_schema
from tests.builders.report_journal import Shape, invented
from tests.rigs.user import write_run
from tools import json_schemas

COMMANDS = {
    "score": "score one",
    "check": "check one",
    "level": "check one --level hardware --against two",
    "verification": "verify one --no-weights",
    "status": "status one",
    "comparison": "compare one two",
    "repeats": "compare --repeats one two",
    "flops": "flops resnet20 --array 16",
    "detector": "flops faster_rcnn_r50",
    "topology": "topology ring:4 --link 1e9 --bytes 1e6",
    "standing": "standing --flops 1e12 --list list.csv",
}
"""Commands by their schema. The other schemas are checked wherever a test prints JSON (tests/conftest.py)."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    for name in ("one", "two"):
        write_run(folder / name, invented(Shape(name=name, workers=2, duration=60.0, warmup=10.0)))
    (folder / "list.csv").write_text("Rank,Name,Rmax [TFlop/s]\n1,a,93\n2,b,0.5\n")
    return folder


@pytest.mark.parametrize("schema", COMMANDS)
def test_json_prints_and_out_writes_the_same_object(
    schema: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

    main([*COMMANDS[schema].split(), "--json", "--out", f"{schema}.json"])

    printed = capsys.readouterr().out
    assert follows_its_schema(printed)["schema"] == f"aiperf-{schema}"
    assert json.loads((folder / f"{schema}.json").read_text()) == json.loads(printed)


def test_a_list_of_runs_follows_its_schema(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

    main(["rank", "one", "two", "--json"])

    assert follows_its_schema(capsys.readouterr().out)["schema"] == "aiperf-list"


@pytest.mark.parametrize(
    ("name", "value"), [("schema", "aiperf-check"), ("flops_per_second", "many"), ("warnings", {}), ("figures", None)]
)
def test_an_output_of_another_form_is_refused(
    name: str, value: object, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    main(["score", "one", "--json"])
    found = json.loads(capsys.readouterr().out)

    with pytest.raises(jsonschema_rs.ValidationError):
        follows_its_schema(json.dumps(found | {name: value}))


@pytest.mark.parametrize("name", json_schemas.FORMS)
def test_each_schema_in_the_package_is_current(name: str) -> None:
    shipped = json_schemas.FOLDER / f"{name}.schema.json"

    assert shipped.read_text() == json_schemas.text(name), "run `python -m tools.json_schemas`"
    jsonschema_rs.meta.validate(json_schemas.schema(name))


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


@pytest.mark.parametrize("verb", VERBS)
def test_json_is_a_flag_and_out_names_what_is_written(verb: str) -> None:
    for parser in parsers(parser_of(verb)):
        flags = {option: action for action in parser._actions for option in action.option_strings}
        if "--json" in flags:
            assert flags["--json"].nargs == 0
            assert flags["--out"].metavar in ("FILE", "DIR", "FOLDER")
