"""Energy by counters and by samples side by side, gaps that nothing bridges, and the level that a measurement reaches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.accounting.accelerator_time import WorkerSpan
from aiperf.errors import BadPower
from aiperf.report.phrases import energy_level
from aiperf.system.energy import Energy, EnergyFacts, energy_facts, energy_warnings
from aiperf.system.log import Log, Record, RecordedSample, Sample, Session, read
from aiperf.system.meters import Level, Measurement, level, read_meters
from aiperf.system.sampler import Device, DeviceSample
from aiperf.system.summary import Telemetry, summarise

WALL = 1_800_000_000.0
Curve = Callable[[float], float]

ALL = frozenset({"nodes", "interconnect", "storage"})
BEST = Measurement(
    interval_seconds=1.0,
    is_integrated=True,
    core_share=1.0,
    nodes=16,
    all_nodes=16,
    watts=2e4,
    measured=ALL,
    estimated=frozenset(),
    point="upstream",
    loss="not adjusted",
)


def gpu(index: int = 0) -> Device:
    return Device(id=f"GPU-{index}", kind="accelerator", index=index, vendor="NVIDIA", model="A100")


def recorded(
    folder: Path, figures: Callable[[float, int], dict[str, float] | None], devices: int = 1, seconds: int = 100
) -> Telemetry:
    """A recorder's file of one look a second, read and summed from 0 to the end."""
    log = Log(folder / "0.jsonl")
    log.begin(
        Session(
            host="n0", worker=0, at=0.0, wall_unix=WALL, interval_seconds=1.0, devices=tuple(map(gpu, range(devices)))
        )
    )
    for at in range(seconds + 1):
        looks = ((index, figures(float(at), index)) for index in range(devices))
        log.append(
            float(at),
            WALL + at,
            [DeviceSample(device=f"GPU-{index}", **told) for index, told in looks if told is not None],  # type: ignore[arg-type]
        )
    log.close()
    return summarise(read(folder), (0.0, float(seconds)))


def accelerators(telemetry: Telemetry, score: float = 3e12) -> Energy:
    facts = energy_facts(telemetry, (), {"n0"}, score, {0: 100.0}, 100.0)
    assert facts is not None
    return next(one for one in facts.scopes if one.scope == "accelerators")


# --- counters and samples


@given(st.floats(50, 700), st.floats(-3, 3), st.lists(st.floats(0.2, 2.9), min_size=2, max_size=40))
def test_counter_and_samples_of_one_curve_agree(base: float, slope: float, gaps: list[float]) -> None:
    """Power that runs straight: the trapezoidal rule is exact, and so is the counter's difference."""

    def watts(at: float) -> float:
        return base + 400.0 + slope * at

    def joules(at: float) -> float:
        return (base + 400.0) * at + slope * at * at / 2

    session = Session(host="n0", worker=0, at=0.0, wall_unix=WALL, interval_seconds=1.0, devices=(gpu(),))
    records: list[Record] = [session]
    at = 0.0
    for gap in (0.0, *gaps):
        at += gap
        look = RecordedSample(
            device="GPU-0", at=at, wall_unix=WALL + at, power_watts=watts(at), energy_joules=joules(at)
        )
        records.append(Sample(session, gpu(), look))

    (one,) = summarise(records, (0.0, at)).devices

    assert one.both_counted_joules == pytest.approx(joules(at), rel=1e-9, abs=1e-6)
    assert one.both_sampled_joules == pytest.approx(joules(at), rel=1e-9, abs=1e-6)
    assert one.energy_disagreement == pytest.approx(0.0, abs=1e-9)


def test_a_biased_sensor_is_shown_with_its_disagreement(
    tmp_path: Path,
) -> None:
    """One of two devices has 460 W by its counter and 414 W in its samples: a tenth less."""

    def figures(at: float, index: int) -> dict[str, float]:
        return {"power_watts": 414.0 if index else 460.0, "energy_joules": 1e6 + 460.0 * at}

    found = accelerators(recorded(tmp_path, figures, devices=2))

    assert found.joules == found.counted_joules == pytest.approx(2 * 46_000)
    assert found.sampled_joules == pytest.approx(46_000 + 41_400)
    assert found.disagreement == pytest.approx(-0.05)
    assert found.worst_disagreement == pytest.approx(-0.1)
    assert found.watts == pytest.approx(920.0)
    assert found.counted_share == 1.0
    assert found.flops_per_watt == pytest.approx(3e12 / 920)


def test_a_disagreement_above_5_percent_is_warned_of(
    tmp_path: Path,
) -> None:
    telemetry = recorded(
        tmp_path,
        lambda at, index: {"power_watts": (300.0, 280.0)[index], "energy_joules": 300.0 * at},
        devices=2,
    )
    facts = energy_facts(telemetry, (), {"n0"}, 3e12, {0: 100.0}, 100.0)

    assert facts is not None
    (warning,) = energy_warnings(facts)
    assert "-6.7 % on A100 on n0" in warning.text


def test_a_gap_adds_no_energy_and_is_reported(tmp_path: Path) -> None:
    """900 W in a gap of 39 s, 300 W around it. The 900 W are not measured."""
    found = accelerators(
        recorded(tmp_path, lambda at, _: None if 20 < at < 60 else {"power_watts": 300.0, "energy_joules": 300.0 * at})
    )

    assert found.measured_share == pytest.approx(0.6)
    assert found.joules == pytest.approx(300.0 * 60)
    assert found.watts == pytest.approx(300.0)


def test_a_counter_reset_is_counted_and_filled_by_samples(tmp_path: Path) -> None:
    found = accelerators(
        recorded(
            tmp_path, lambda at, _: {"power_watts": 300.0, "energy_joules": 300.0 * at + (1e6 if at <= 50 else 0.0)}
        )
    )

    assert found.counter_restarts == 1
    assert found.counted_share == pytest.approx(0.99)
    assert found.joules == pytest.approx(30_000)
    assert found.disagreement == pytest.approx(0.0)


def test_a_device_without_values_leaves_no_sum(tmp_path: Path) -> None:
    found = accelerators(recorded(tmp_path, lambda _, index: {"power_watts": 300.0} if index else {}, devices=2))

    assert (found.joules, found.watts, found.flops_per_watt) == (None, None, None)
    assert found.measured_share == pytest.approx(0.5)


def test_a_run_without_power_has_no_energy() -> None:
    assert energy_facts(None, (), {"n0"}, 1e12, {0: 100.0}, 100.0) is None


def test_a_replaced_worker_is_no_gap_and_counts_once(
    tmp_path: Path,
) -> None:
    """300 W until 40 s. Another worker's 500 W from 50 s. A third worker was lost before the window."""
    for worker, since, until, watts in ((0, 0, 40, 300.0), (1, 50, 100, 500.0), (2, -20, -10, 700.0)):
        log = Log(tmp_path / f"{worker}.jsonl")
        log.begin(
            Session(host="n0", worker=worker, at=float(since), wall_unix=WALL, interval_seconds=1.0, devices=(gpu(),))
        )
        for at in range(since, until + 1):
            log.append(float(at), WALL + at, [DeviceSample(device="GPU-0", power_watts=watts)])
        log.close()
    telemetry = summarise(read(tmp_path), (0.0, 100.0))

    facts = energy_facts(telemetry, (), {"n0"}, 3e12, {0: 40.0, 1: 50.0}, 100.0)

    assert facts is not None
    (found,) = facts.scopes
    assert (found.devices, found.measured_share) == (2, 1.0)
    assert found.joules == pytest.approx(300 * 40 + 500 * 50)
    assert found.watts == pytest.approx((300 * 40 + 500 * 50) / 100)


activities = st.sampled_from(["epochs", "start-up", "search"])


@given(
    st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.1, 30.0), activities), max_size=12),
    st.booleans(),
    st.floats(1, 9),
)
def test_energy_by_activity_sums_to_all_energy(
    stretches: list[tuple[float, float, str]], has_counter: bool, slope: float
) -> None:
    """Power of slope · t: between any two moments it is known what was spent."""
    listed: list[WorkerSpan] = []
    for pause, length, activity in stretches:
        start = (listed[-1].end if listed else 0.0) + pause
        listed.append(WorkerSpan(start, start + length, activity))  # type: ignore[arg-type]
    session = Session(host="n0", worker=0, at=0.0, wall_unix=WALL, interval_seconds=1.0, devices=(gpu(),))
    looks = (
        RecordedSample(
            device="GPU-0",
            at=float(at),
            wall_unix=WALL + at,
            power_watts=slope * at,
            energy_joules=slope * at * at / 2 if has_counter else None,
        )
        for at in range(101)
    )

    (one,) = summarise([session, *(Sample(session, gpu(), look) for look in looks)], (10.0, 90.0), {0: listed}).devices

    assert sum(spent.joules for spent in one.spent.values()) == pytest.approx(one.energy_joules)
    assert sum(spent.seconds for spent in one.spent.values()) == pytest.approx(one.energy_seconds)
    for name in ("epochs", "start-up", "search"):
        inside = [(max(10.0, s.start), min(90.0, s.end)) for s in listed if s.activity == name]
        truth = sum(slope * (until**2 - since**2) / 2 for since, until in inside if until > since)
        told = one.spent[name].joules if name in one.spent else 0.0
        # a counter's difference is spread evenly over its second: off by an eighth of the slope at each edge at most
        assert told == pytest.approx(truth, abs=1e-6 + (slope / 4 * len(inside) if has_counter else 0.0))


# --- levels


def test_sensors_inside_nodes_reach_no_level(tmp_path: Path) -> None:
    facts = energy_facts(
        recorded(tmp_path, lambda at, _: {"power_watts": 300.0, "energy_joules": 300.0 * at}),
        (),
        {"n0"},
        3e12,
        {0: 100.0},
        100.0,
    )

    assert facts is not None
    assert (facts.level.level, facts.of) == (0, "sensors inside the nodes")
    assert [aspect.name for aspect in facts.level.aspects if not aspect.level] == [
        "3 subsystems",
        "4 point of measurement",
    ]


def test_a_measurement_that_lacks_nothing_is_of_level_1() -> None:
    found = level(BEST)

    assert found.level == 1
    assert [aspect.missing for aspect in found.aspects] == [None] * len(found.aspects)


@pytest.mark.parametrize(
    ("change", "reached", "aspect"),
    [
        ({"interval_seconds": 5.0, "is_integrated": False}, 0, "1a granularity"),
        ({"interval_seconds": 5.0}, 1, "1a granularity"),
        ({"core_share": 0.97}, 0, "1b timing"),
        ({"watts": None}, 0, "1c what is reported"),
        ({"nodes": 15, "all_nodes": 160, "watts": 5e3}, 0, "2 machine fraction"),
        ({"nodes": 16, "all_nodes": 150, "watts": 1.9e3}, 0, "2 machine fraction"),
        ({"nodes": 16, "all_nodes": 150, "watts": 5e3}, 1, "2 machine fraction"),
        ({"nodes": 4, "all_nodes": 4, "watts": 900.0}, 1, "2 machine fraction"),
        ({"measured": frozenset({"nodes"})}, 0, "3 subsystems"),
        ({"measured": frozenset({"nodes"}), "estimated": frozenset({"interconnect"})}, 1, "3 subsystems"),
        ({"point": "inside nodes"}, 0, "4 point of measurement"),
        ({"point": "downstream"}, 0, "4 point of measurement"),
        ({"point": "downstream", "loss": "modelled"}, 1, "4 point of measurement"),
    ],
)  # fmt: skip
def test_an_unmet_condition_costs_the_level(change: dict[str, object], reached: int, aspect: str) -> None:
    found = level(dataclasses.replace(BEST, **change))  # type: ignore[arg-type]

    of_aspect = next(one for one in found.aspects if one.name == aspect)
    assert of_aspect.level == found.level == reached
    assert (of_aspect.missing is None) == (reached == 1)


# --- meters

FORM = """
nodes: 16
measured: [nodes, interconnect]
point: upstream
integrated: true
device: a meter of class 0.5
"""


def metered(folder: Path, table: str, form: str = FORM, name: str = "rack7") -> Path:
    (folder / "power").mkdir(exist_ok=True)
    (folder / "power" / f"{name}.yaml").write_text(form)
    (folder / "power" / f"{name}.csv").write_text(table)
    return folder


def table_of(watts: Curve, joules: Curve | None, seconds: range) -> str:
    lines = ["unix_seconds,watts" + (",joules" if joules else "")]
    lines += [f"{WALL + at},{watts(at)}" + (f",{joules(at)}" if joules else "") for at in seconds]
    return "\n".join(lines) + "\n"


def facts_of(folder: Path, nodes: int = 16) -> EnergyFacts:
    meters = read_meters(folder, WALL, (10.0, 110.0))
    facts = energy_facts(None, meters, {f"n{index}" for index in range(nodes)}, 5e13, {}, 100.0)
    assert facts is not None
    return facts


def names(reached: Level) -> dict[str, int]:
    return {aspect.name: aspect.level for aspect in reached.aspects}


@pytest.mark.parametrize("watts", [1.0, 2e4])
def test_a_meter_without_sensors_in_its_nodes_is_alone(tmp_path: Path, watts: float) -> None:
    """A meter of one watt had EEHPC level 1 on a machine without sensors, and the first place by FLOPS/W."""
    facts = facts_of(metered(tmp_path, table_of(lambda _: watts, lambda at: 7e9 + watts * at, range(-5, 130))))

    assert [(aspect.name, aspect.found) for aspect in facts.level.aspects if not aspect.level] == [
        ("5 sensors inside", "sensors in 0 nodes, 16 metered")
    ]
    assert facts.level.level == 0 and energy_level(facts) == "meter alone: no EEHPC level, which the Green500 requires"


@pytest.mark.parametrize(
    ("nodes", "watts", "reached"), [(2, 800.0, 1), (2, 799.0, 0), (1, 300.0, 1), (1, 299.0, 0), (3, 2e3, 0)]
)
def test_a_level_needs_sensors_in_each_metered_node(tmp_path: Path, nodes: int, watts: float, reached: int) -> None:
    facts = facts_with_sensors(tmp_path, watts, FORM.replace("16", str(nodes)))

    assert names(facts.level)["5 sensors inside"] == reached


def test_an_upstream_meter_of_all_nodes_reaches_level_1(tmp_path: Path) -> None:
    facts = facts_with_sensors(tmp_path, 2e4, FORM.replace("16", "2"))

    assert facts.level.level == 1, facts.level.aspects
    assert facts.best.scope == "meters"
    assert facts.best.joules == pytest.approx(2e4 * 100)
    assert facts.best.flops_per_watt == pytest.approx(5e13 / 2e4)


def facts_with_sensors(folder: Path, meter_watts: float, form: str = FORM, hosts: int = 2) -> EnergyFacts:
    """Return facts of two hosts with one worker each. The accelerator draws 300 W in the first and 500 W in the second."""
    metered(folder, table_of(lambda _: meter_watts, lambda at: 1e9 + meter_watts * at, range(-5, 130)), form)
    devices = []
    for index in range(hosts):
        part = folder / f"host-{index}"
        part.mkdir()
        (one,) = recorded(part, lambda at, _, watts=300.0 + 200 * index: {"power_watts": watts}).devices  # type: ignore[misc]
        devices.append(dataclasses.replace(one, worker=index, host=f"n{index}"))
    telemetry = dataclasses.replace(
        recorded(folder / "host-0", lambda at, _: {"power_watts": 300.0}), devices=tuple(devices)
    )
    meters = read_meters(folder, WALL, (10.0, 110.0))
    facts = energy_facts(telemetry, meters, {f"n{index}" for index in range(hosts)}, 5e13, {0: 100.0, 1: 100.0}, 100.0)
    assert facts is not None
    return facts


@pytest.mark.parametrize(("nodes", "watts"), [(2, 1.0), (2, 750.0), (1, 280.0)])
def test_a_meter_below_the_sensors_behind_it_is_contradictory(tmp_path: Path, nodes: int, watts: float) -> None:
    facts = facts_with_sensors(tmp_path, watts, FORM.replace("16", str(nodes)))

    (warning,) = energy_warnings(facts)
    assert warning.severity == "critical" and f"read {watts:.4g} W" in warning.text
    assert facts.level.level == 0
    assert (facts.best.scope, facts.best.flops_per_watt) == ("meters", None)


@pytest.mark.parametrize(
    ("nodes", "watts", "measured"), [(2, 770.0, "nodes"), (1, 290.0, "nodes"), (2, 1.0, "storage")]
)
def test_a_meter_that_can_be_right_is_no_contradiction(tmp_path: Path, nodes: int, watts: float, measured: str) -> None:
    form = FORM.replace("16", str(nodes)).replace("measured: [nodes, interconnect]", f"measured: [{measured}]")

    facts = facts_with_sensors(tmp_path, watts, form)

    assert energy_warnings(facts) == ()
    assert facts.best.flops_per_watt == pytest.approx(5e13 / watts)


def test_two_meters_are_summed_and_are_as_good_as_the_lesser(tmp_path: Path) -> None:
    metered(tmp_path, table_of(lambda _: 2e4, lambda at: 1e9 + 2e4 * at, range(-5, 130)), FORM.replace("16", "8"))
    lesser = FORM.replace("16", "8").replace("upstream", "downstream")
    metered(tmp_path, table_of(lambda _: 1e4, None, range(-5, 130)), lesser, "rack8")

    facts = facts_of(tmp_path)

    assert facts.best.watts == pytest.approx(3e4)
    assert facts.level.level == 0


def test_a_gap_of_a_meter_costs_the_level_and_adds_no_energy(tmp_path: Path) -> None:
    whole = table_of(lambda _: 2e4, lambda at: 1e9 + 2e4 * at, range(-5, 130)).splitlines(keepends=True)

    facts = facts_of(metered(tmp_path, "".join(whole[:50] + whole[70:])))

    assert names(facts.level)["1b timing"] == 0
    assert facts.best.joules == pytest.approx(2e4 * 79)
    assert facts.best.watts == pytest.approx(2e4)


@pytest.mark.parametrize(
    ("table", "form", "says"),
    [
        ("unix_seconds,watts\n5,100\n4,100\n", FORM, "line 3 of"),
        ("unix_seconds,watts\n5,100\n5,100\n", FORM, "later than the one before"),
        ("seconds,watts\n5,100\n6,100\n", FORM, "unix_seconds, and watts or joules"),
        ("unix_seconds,watts\n5,100\n6,-1\n", FORM, "found '-1'"),
        ("unix_seconds,watts\n5,100\n6,lots\n", FORM, "found 'lots'"),
        ("unix_seconds,watts\n5,100\n", FORM, "two samples or more"),
        ("unix_seconds,watts\n5,100\n6,100\n", "nodes: 3\n", "docs/report.md"),
        ("unix_seconds,watts\n5,100\n6,100\n", FORM + "knots: 3\n", "knots"),
    ],
)
def test_an_unreadable_meter_is_refused_with_reason(tmp_path: Path, table: str, form: str, says: str) -> None:
    with pytest.raises(BadPower, match="power") as refused:
        read_meters(metered(tmp_path, table, form), 0.0, (0.0, 10.0))

    assert says in str(refused.value)


def test_a_run_without_the_folder_has_no_meters(tmp_path: Path) -> None:
    assert read_meters(tmp_path, WALL, (0.0, 10.0)) == ()
