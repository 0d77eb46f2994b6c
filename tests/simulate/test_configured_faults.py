"""Configuration of faults: typed records in a list, whose classes know their fields and ranges."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.cli.help import main as help_of_a_run
from aiperf.config import as_plain, configure, from_plain
from aiperf.errors import BadConfiguration
from aiperf.option_limits import limits_of
from aiperf.simulate.faults import build_faults
from aiperf.simulate.model.simulated_executor import Fault
from aiperf.simulate.session import open_run
from cluster.faults import FAULTS, AnyFault, CrashConf, FaultConf
from cluster.simulated import SimulatedConf

SIMULATED = "+cluster=simulated"
KINDS = {str(fields(fault)[0].default): fault for fault in FAULTS}


def faults_of(*words: str) -> list[AnyFault]:
    cluster = configure([SIMULATED, *words]).cluster
    assert isinstance(cluster, SimulatedConf)
    return cluster.faults


def test_every_fault_is_configured_by_its_kind_and_built() -> None:
    configured = faults_of(f"cluster.faults=[{','.join(f'{{kind: {kind}}}' for kind in KINDS)}]")

    assert configured == [fault() for fault in FAULTS]
    for conf, fault in zip(configured, build_faults(configured, seed=0), strict=True):
        assert f"{type(fault).__name__}Conf" == type(conf).__name__
        hooks = [name for name in vars(Fault) if not name.startswith("_")]
        assert any(getattr(type(fault), hook) is not getattr(Fault, hook) for hook in hooks), type(fault)


def test_every_fault_field_can_be_set_in_its_record() -> None:
    given: list[dict[str, Any]] = [
        {each.name: 0.5 if isinstance(each.default, float) else "before" for each in fields(fault)[1:]}
        for fault in FAULTS
    ]
    records = [{"kind": kind} | values for kind, values in zip(KINDS, given, strict=True)]

    configured = faults_of(f"cluster.faults={written(records)}")

    assert configured == [fault(**values) for fault, values in zip(FAULTS, given, strict=True)]


def written(records: list[dict[str, Any]]) -> str:
    inside = [", ".join(f"{name}: {value}" for name, value in record.items()) for record in records]
    return f"[{','.join(f'{{{each}}}' for each in inside)}]"


def test_help_shows_every_fault_field_with_default_and_range(
    capsys: pytest.CaptureFixture[str],
) -> None:
    help_of_a_run(["cluster.faults"])

    said = capsys.readouterr().out
    for kind, fault in KINDS.items():
        of_this_one = said.partition(f"{{kind: {kind}, ")[2].partition("{kind: ")[0]
        for each in fields(fault)[1:]:
            default = f"{each.default:g}" if isinstance(each.default, float) else each.default
            assert f"{each.name}: {default}" in of_this_one.partition("}")[0]
            assert re.search(rf"\n +{each.name} {limits_of(fault)[each.name].condition}\. \w.*\.\n", of_this_one), (
                each.name
            )


CRASH = "cluster.faults=[{kind: crash}]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["faults=[{kind: worker_lots}]"], "but found worker_lots (did you mean 'worker_lost'?)"),
        (["faults=[{kind: crash},{kind: crash, rat: 1}]"], "crash of cluster.faults has no field 'rat' (did you mean 'rate'?)"),
        (["faults=[{kind: crash, back: 1}]"], "crash of cluster.faults has no field 'back'. Its fields: rate, final"),
        (["faults=[crash]"], "a list of records {kind: KIND, …}, but found 'crash' (did you mean {kind: crash}?)"),
        (["faults=[3]"], "cluster.faults is a list of records {kind: KIND, …}, but found 3"),
        (["faults=[{rate: 0.1}]"], "cluster.faults.0: the kind of a record is one of worker_lost, worker_hung"),
        (["faults=crash"], "cluster.faults is a list of records {kind: KIND, …}, but found cluster.faults=crash"),
        (["faults=null"], "cluster.faults is a list of records {kind: KIND, …}, but found cluster.faults=null"),
        (["faults=[{kind: crash, rate: often}]"], "cluster.faults.0.rate is a number, but found often"),
        (["faults=[{kind: crash, rate: null}]"], "cluster.faults.0.rate is a number, but found None"),
        (["faults=[{kind: crash, rate: 1.5}]"], "cluster.faults.0.rate is between 0 and 1, but found 1.5"),
        (["faults=[{kind: worker_lost, when: befor}]"], "when is one of before, during, after, any, but found 'befor'"),
        (["faults=[{kind: node_lost, back_seconds: 0}]"], "seconds is between 0.001 and 31622400, but found 0.0"),
        (["faults=[{kind: node_lost, back_seconds: nan}]"], "seconds is between 0.001 and 31622400, but found nan"),
        ([CRASH, "faults=[]"], "each option must be given once, but cluster.faults is given by"),
        (["links=3"], "cluster.links is a list of records {width: …, latency_seconds: …, bytes_per_second: …}, but found"),
        (["links=[{wdth: 3}]"], "a record of cluster.links has no field 'wdth' (did you mean 'width'?)"),
        (["links=[{width: x}]"], "cluster.links.0.width is a whole number, but found x"),
    ],
)  # fmt: skip
def test_wrong_fault_entry_is_refused_with_the_nearest_match(words: list[str], said: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        configure([SIMULATED, *(f"cluster.{word.removeprefix('cluster.')}" for word in words)])

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_first_line_restores_every_field_of_every_fault() -> None:
    conf = configure([SIMULATED, "cluster.faults=[{kind: crash, rate: 0.3}, {kind: worker_lost, when: before}]"])

    first = open_run(conf).first
    plain = msgspec.json.decode(msgspec.json.encode(first.config))

    assert plain["cluster"]["faults"] == [
        {"kind": "crash", "rate": 0.3, "final": 0.2},
        {"kind": "worker_lost", "rate": 0.15, "when": "before"},
    ]
    assert from_plain(plain) == from_plain(as_plain(conf)) == conf


def test_faults_of_one_kind_differ_and_equal_seeds_agree() -> None:
    first, second = build_faults([CrashConf(), CrashConf()], seed=1)
    again, _ = build_faults([CrashConf(), CrashConf()], seed=1)

    drawn = first.draw.random()
    assert drawn != second.draw.random()
    assert drawn == again.draw.random()


def test_simulation_page_names_every_fault_with_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", page, re.MULTILINE)

    def fields_of(fault: type[FaultConf]) -> list[str]:
        return sorted(each.name for each in fields(fault)[1:])

    assert {kind: sorted(re.findall(r"`(\w+)`", text)) for kind, text in rows} == {
        kind: fields_of(fault) for kind, fault in KINDS.items()
    }
