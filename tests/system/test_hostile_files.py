"""Files next to a journal may be hostile. Each is read within limits or rejected by name, never with a traceback."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from aiperf import bounded_yaml
from aiperf.errors import BadConfiguration, BadPower
from aiperf.ranking.division import BadDivision, parsed
from aiperf.system.form import SystemForm, filled
from aiperf.system.log import LONGEST_LINE, Damage, Sample, read
from aiperf.system.meters import read_meters
from aiperf.system.summary import summarise

YAML = {
    "a tag": "nodes: !!int foo",
    "an alias": "nodes: &a [1]\nmeasured: *a",
    "aliases of aliases": "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "brackets": "nodes: " + "[" * 100_000,
    "400 digits": "nodes: " + "9" * 400,
    "5000 digits": "nodes: " + "9" * 5000,
    "a list as a key": "? [1]\n: 2",
    "month 13": "nodes: 2001-13-01",
    "a key twice": "nodes: 1\nnodes: 2",
    "the last of 20,000 keys twice": "".join(f"k{number}: 1\n" for number in [*range(20_000), 19_999]),
    "2 MB": "nodes: " + "x" * 2_000_000,
    "no text": "\x00",
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_hostile_yaml_is_refused_by_each_reader(tmp_path: Path, text: str) -> None:
    (tmp_path / "power").mkdir()
    file = tmp_path / "power" / "rack.yaml"
    file.write_text(text)

    with pytest.raises(bounded_yaml.BadYaml):
        bounded_yaml.load(text)
    with pytest.raises(BadDivision, match=r"a division is a YAML file\. 'rules' is not YAML"):
        parsed(text, "'rules'")
    with pytest.raises(BadConfiguration, match=r"system\.file is a YAML file"):
        filled(SystemForm(file=str(file)))
    with pytest.raises(BadPower, match="a meter's form is YAML"):
        read_meters(tmp_path, 0.0, (0.0, 10.0))


def test_plain_yaml_is_read() -> None:
    assert bounded_yaml.load("a: [1, 2.5, true, null, x]\nb: {c: d}") == {
        "a": [1, 2.5, True, None, "x"],
        "b": {"c": "d"},
    }


FORM = "nodes: 1\nmeasured: [nodes]\npoint: upstream\n"
HONEST = "".join(f"{second},100\n" for second in range(5))


@pytest.mark.parametrize(
    ("form", "rows", "found"),
    [
        (FORM, '"' + "9" * 10**6, "field larger than field limit"),
        (FORM, "1,100\x00\n", "two samples or more"),
        (FORM.replace("1", "-1", 1), HONEST, ">= 0"),
        (FORM, "1e308,1\n2e308,1\n", "must be a number from 0 to 1e\\+15"),
        (FORM, "0,1e308\n1,1e308\n", "must be a number from 0 to 1e\\+15"),
    ],
    ids=["a long field", "a zero byte", "nodes below 0", "late times", "much power"],
)
def test_a_hostile_table_of_a_meter_is_refused(tmp_path: Path, form: str, rows: str, found: str) -> None:
    (tmp_path / "power").mkdir()
    (tmp_path / "power" / "rack.yaml").write_text(form)
    (tmp_path / "power" / "rack.csv").write_text("unix_seconds,watts\n" + rows)

    with pytest.raises(BadPower, match=found):
        read_meters(tmp_path, 0.0, (0.0, 10.0))


SESSION = {
    "line": "session",
    "host": "a",
    "worker": 0,
    "at": 0.0,
    "wall_unix": 1.0,
    "interval_seconds": 1.0,
    "devices": [{"id": "GPU-0", "kind": "accelerator"}],
}


def look(at: float, **figures: object) -> dict[str, object]:
    return {"line": "sample", "device": "GPU-0", "at": at, "wall_unix": 1.0 + at, **figures}


@pytest.mark.parametrize(
    "name", ["energy_joules", "power_watts", "utilisation", "clock_mhz", "temperature_celsius", "wall_unix", "at"]
)
def test_a_counter_beyond_all_bounds_is_damage(tmp_path: Path, name: str) -> None:
    honest = [look(float(second), power_watts=100.0) for second in range(10)]
    lines = [SESSION, *honest[:5], look(5.5) | {name: 1e308}, *honest[6:]]
    (tmp_path / "0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    (damage,) = (record for record in read(tmp_path) if isinstance(record, Damage))
    device = summarise(read(tmp_path), (0.0, 10.0)).devices[0]

    assert damage.line == 7
    assert device.power_mean_watts == 100.0


def test_a_long_line_of_telemetry_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "0.jsonl").open("w") as file:
        file.write(json.dumps(SESSION) + "\n" + json.dumps(look(1.0)) + "\n")
        file.truncate(2**31)  # a hole: it takes no room on the disk
    tracemalloc.start()

    records = list(read(tmp_path))

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(isinstance(record, Sample) for record in records) == 1
    assert isinstance(records[-1], Damage) and "less than" in records[-1].why
    assert most < 8 * LONGEST_LINE
