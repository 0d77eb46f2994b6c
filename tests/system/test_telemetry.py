"""Recorded telemetry adds up to what was recorded, and what is wrong with the accelerators appears as warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.system.log import Log, Record, Sample, Session, parse, read
from aiperf.system.sampler import Device, DeviceSample
from aiperf.system.summary import DeviceTelemetry, Telemetry, summarise
from aiperf.system.warnings import telemetry_warnings

WALL = 1_800_000_000.0
HEALTHY = {"utilisation": 0.97, "power_watts": 300.0, "temperature_celsius": 60.0, "throttle": (), "ecc_uncorrected": 0}
Fault = Callable[[float, dict[str, object]], dict[str, object] | None]


def accelerator(index: int, cap: float | None = 400.0) -> Device:
    return Device(
        id=f"GPU-{index}", kind="accelerator", index=index, vendor="NVIDIA", model="A100", power_cap_watts=cap
    )


HOST = Device(id="host", kind="host", memory_bytes=1 << 30)


def session(devices: Sequence[Device], worker: int = 0, at: float = 0.0, accelerators: int | None = None) -> Session:
    return Session(
        host=f"n{worker}", worker=worker, at=at, wall_unix=WALL + at, interval_seconds=1.0, devices=tuple(devices),
        accelerators=accelerators, not_sampled={"amdsmi": "no amdgpu driver is loaded"},
    )  # fmt: skip


def write(
    folder: Path, devices: Sequence[Device], faults: dict[str, Fault] | None = None, seconds: int = 100, worker: int = 0,
    accelerators: int | None = None,
) -> None:  # fmt: skip
    """Write a file with one sample per second by the real writer. A fault changes or drops a device's values at a time."""
    log = Log(folder / f"{worker}.jsonl")
    log.begin(session([HOST, *devices], worker, accelerators=accelerators))
    for at in range(seconds + 1):
        samples = [DeviceSample(device="host", utilisation=0.5, memory_used_bytes=1000)]
        for device in devices:
            fault: Fault = (faults or {}).get(device.id, lambda _, figures: figures)
            figures = fault(float(at), dict(HEALTHY))
            if figures is not None:
                samples.append(msgspec.convert({"device": device.id, **figures}, DeviceSample))
        log.append(float(at), WALL + at, samples)
    log.close()


def summary(folder: Path, window: tuple[float, float] = (0.0, 100.0)) -> Telemetry:
    return summarise(read(folder), window)


def device(telemetry: Telemetry, id_: str) -> DeviceTelemetry:
    (found,) = (one for one in telemetry.devices if one.device.id == id_)
    return found


def texts(telemetry: Telemetry, severity: str | None = None) -> list[str]:
    return [warning.text for warning in telemetry_warnings(telemetry) if severity in (None, warning.severity)]


# --- warnings


def test_healthy_busy_accelerators_give_no_warning(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0), accelerator(1)], accelerators=2)

    assert texts(summary(tmp_path)) == []


def test_a_throttled_accelerator_is_warned_of_with_reason(tmp_path: Path) -> None:
    def hot_brakes(at: float, figures: dict[str, object]) -> dict[str, object]:
        return figures | ({"throttle": ("gpu_idle", "hw_thermal_slowdown")} if 20 < at <= 32 else {})

    write(tmp_path, [accelerator(0), accelerator(1)], {"GPU-1": hot_brakes})

    assert device(summary(tmp_path), "GPU-1").throttled == {"gpu_idle": 0.12, "hw_thermal_slowdown": 0.12}
    assert texts(summary(tmp_path), "warning") == [
        "1 of 2 accelerators throttled (hw_thermal_slowdown); worst A100 #1 of worker 0 on 'n0', 12 % of the time"
    ]


def test_a_clock_held_by_a_power_limit_someone_set_is_a_note(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda _, figures: figures | {"throttle": ("sw_power_cap",)}})

    assert len(texts(summary(tmp_path), "note")) == len(texts(summary(tmp_path))) == 1


def test_a_hot_accelerator_is_warned_of_with_its_temperature(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda at, figures: figures | {"temperature_celsius": 60 + at / 3}})

    assert texts(summary(tmp_path)) == [
        "1 of 1 accelerator reached 85 °C; hottest A100 #0 of worker 0 on 'n0', 93 °C",
    ]
    assert texts(summary(tmp_path, (0.0, 50.0))) == []


def test_uncorrected_memory_errors_in_the_window_are_critical(tmp_path: Path) -> None:
    def failing(at: float, figures: dict[str, object]) -> dict[str, object]:
        return figures | {"ecc_uncorrected": 7 if at < 50 else 9, "ecc_corrected": 3}

    write(tmp_path, [accelerator(0)], {"GPU-0": failing})

    assert texts(summary(tmp_path), "critical") == [
        "1 of 1 accelerator had uncorrected memory errors: results may be wrong; "
        "worst A100 #0 of worker 0 on 'n0', 2 in the window"
    ]
    assert texts(summary(tmp_path, (0.0, 40.0))) == []


def test_an_accelerator_that_stops_answering_is_critical(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0), accelerator(1)], {"GPU-1": lambda at, figures: figures if at < 40 else None})

    assert device(summary(tmp_path), "GPU-1").seconds_missing == pytest.approx(61.0)
    assert texts(summary(tmp_path)) == [
        "1 of 2 accelerators vanished; first A100 #1 of worker 0 on 'n0', last seen at 39 s (gives no more samples)"
    ]


def test_a_lost_accelerator_is_reported_with_its_drivers_text(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda at, figures: figures if at < 99 else {"gone": "GPU is lost"}})

    (text,) = texts(summary(tmp_path), "critical")
    assert text.endswith("last seen at 98 s (GPU is lost)")


def test_an_announced_accelerator_without_samples_vanished(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0), accelerator(1)], {"GPU-1": lambda _, __: None})

    assert any("vanished" in text for text in texts(summary(tmp_path), "critical"))


def test_missing_accelerators_of_a_worker_are_critical(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(index) for index in range(6)], accelerators=8)

    assert texts(summary(tmp_path)) == ["2 of 8 accelerators of worker 0 on 'n0' missing when recording began"]


def test_idle_accelerators_are_warned_of(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda _, figures: figures | {"utilisation": 0.02}})

    assert texts(summary(tmp_path)) == [
        "1 of 1 accelerator sat idle; least used A100 #0 of worker 0 on 'n0', mean utilization 2.0 %"
    ]


def test_different_power_limits_of_one_model_are_warned_of(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0), accelerator(1, cap=250.0), accelerator(2, cap=None)])

    assert texts(summary(tmp_path)) == [
        "power limits of A100 differ: 1 of 2 below 400 W; lowest A100 #1 of worker 0 on 'n0', 250 W"
    ]


def test_accelerators_without_a_sampler_are_not_idle(tmp_path: Path) -> None:
    write(tmp_path, [], accelerators=4)

    assert texts(summary(tmp_path)) == [
        "accelerators of 1 of 1 workers not measured; worker 0 on 'n0': amdsmi: no amdgpu driver is loaded"
    ]
    assert summary(tmp_path).energy_joules is None


def test_a_machine_without_accelerators_gives_no_warning_of_them(tmp_path: Path) -> None:
    write(tmp_path, [], accelerators=0)

    assert texts(summary(tmp_path)) == []


def test_a_device_that_gives_no_figure_is_not_warned_of_for_it(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda _, __: {"memory_used_bytes": 5}})

    one = device(summary(tmp_path), "GPU-0")

    assert texts(summary(tmp_path)) == []
    assert (one.utilisation_mean, one.power_mean_watts, one.energy_joules, one.throttled) == (None, None, None, None)
    assert (one.temperature_max_celsius, one.ecc_uncorrected, one.memory_used_max_bytes) == (None, None, 5)


def test_an_interrupted_recording_is_reported_as_not_measured(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], seconds=60)

    assert texts(summary(tmp_path), "note") == [
        "1 of 1 accelerator not measured all the time; worst A100 #0 of worker 0 on 'n0', 40 of 100 s missing"
    ]


# --- sums


@given(
    st.lists(st.floats(0.1, 2.9), min_size=1, max_size=60),
    st.floats(1.0, 1000.0),
    st.floats(0.0, 50.0),
    st.floats(0.5, 100.0),
)
def test_constant_power_gives_power_times_measured_time(
    gaps: list[float], watts: float, start: float, length: float
) -> None:
    records: list[Record] = list(looks_at(gaps, watts))

    one = summarise(records, (start, start + length)).devices[0]

    covered = max(0.0, min(start + length, sum(gaps)) - start)
    assert one.seconds_measured == pytest.approx(covered, abs=1e-6)
    assert one.seconds_measured + one.seconds_missing == pytest.approx(length)
    if one.energy_joules is None:
        assert covered == pytest.approx(0, abs=1e-6)
    else:
        assert one.energy_joules == pytest.approx(watts * covered, rel=1e-6, abs=1e-6)


def looks_at(gaps: Iterable[float], watts: float) -> Iterable[Record]:
    header = session([accelerator(0)])
    lines = [msgspec.json.encode(header) + b"\n"]
    at = 0.0
    for gap in (0.0, *gaps):
        at += gap
        look = {"line": "sample", "device": "GPU-0", "at": at, "wall_unix": WALL + at, "power_watts": watts}
        lines.append(msgspec.json.encode(look) + b"\n")
    return parse(lines, "made up")


def test_rising_power_is_integrated_by_the_trapezoidal_rule(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda at, figures: figures | {"power_watts": 10 * at}})

    one = device(summary(tmp_path, (0.5, 10.5)), "GPU-0")

    assert one.energy_joules == pytest.approx(10 * (10.5**2 - 0.5**2) / 2)
    assert one.power_mean_watts == pytest.approx(55.0)


def test_energy_is_the_counters_if_samples_are_biased(tmp_path: Path) -> None:
    """500 W in nine tenths of each second, 100 W in the moments of the samples, as a sensor has it that sees a part."""
    write(
        tmp_path,
        [accelerator(0)],
        {"GPU-0": lambda at, figures: figures | {"power_watts": 100.0, "energy_joules": 7e6 + 460.0 * at}},
    )

    one = device(summary(tmp_path, (10.5, 90.5)), "GPU-0")

    assert one.energy_joules == pytest.approx(460.0 * 80)
    assert one.power_mean_watts == pytest.approx(460.0)
    assert one.energy_counted_share == 1.0


def test_where_the_counter_began_anew_power_samples_stand_in(tmp_path: Path) -> None:
    write(
        tmp_path,
        [accelerator(0)],
        {"GPU-0": lambda at, figures: figures | {"energy_joules": 300.0 * at + (1e6 if at <= 50 else 0.0)}},
    )

    one = device(summary(tmp_path), "GPU-0")

    assert one.energy_joules == pytest.approx(300.0 * 100)
    assert one.energy_counted_share == pytest.approx(0.99)


def test_a_counter_is_not_read_across_a_recorder_restart(tmp_path: Path) -> None:
    """The host's is counted from the recorder's own start: 5 J before, 2000 J after are no 1995 J."""
    write(tmp_path, [], seconds=0)
    log = Log(tmp_path / "0.jsonl")
    for began, joules in ((0.0, 5.0), (2.0, 2000.0)):
        log.begin(session([HOST], at=began))
        for at in (began, began + 1):
            log.append(at, WALL + at, [DeviceSample(device="host", power_watts=60.0, energy_joules=joules + 60 * at)])
    log.close()

    one = device(summary(tmp_path, (0.0, 3.0)), "host")

    assert one.energy_joules == pytest.approx(180.0)
    assert one.energy_counted_share == pytest.approx(2 / 3)


def test_a_counter_that_stands_still_while_power_flows_is_none(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda _, figures: figures | {"energy_joules": 7.0}})

    one = device(summary(tmp_path), "GPU-0")

    assert one.energy_joules == pytest.approx(300.0 * 100)
    assert one.energy_counted_share == 0.0


def test_a_gap_adds_missing_time_and_no_energy(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda at, figures: None if 20 < at < 60 else figures})

    one = device(summary(tmp_path), "GPU-0")

    assert (one.seconds_missing, one.energy_joules, one.gone) == (40.0, 300.0 * 60, None)


def test_a_second_session_goes_on_where_the_first_was_killed(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], seconds=40)
    with (tmp_path / "0.jsonl").open("ab") as file:
        file.write(b'{"line":"sample","at":41.0,"wall_un')
    log = Log(tmp_path / "0.jsonl")
    log.begin(session([HOST, accelerator(0)], at=60.0))
    for at in range(60, 101):
        log.append(at, WALL + at, [DeviceSample(device="GPU-0", power_watts=300.0)])
    log.close()

    one = device(summary(tmp_path), "GPU-0")

    assert (one.seconds_measured, one.energy_joules, one.gone) == (80.0, 300.0 * 80, None)


def test_a_reset_error_counter_is_not_counted_backwards(tmp_path: Path) -> None:
    write(
        tmp_path,
        [accelerator(0)],
        {"GPU-0": lambda at, figures: figures | {"ecc_uncorrected": 5 if at < 50 else 1}},
    )

    assert device(summary(tmp_path), "GPU-0").ecc_uncorrected == 1


def test_files_of_several_workers_are_distinguished(tmp_path: Path) -> None:
    for worker in (0, 2, 10):
        write(tmp_path, [accelerator(0)], worker=worker)

    telemetry = summary(tmp_path)

    assert [one.worker for one in telemetry.workers] == [0, 2, 10]
    assert [one.host for one in telemetry.accelerators] == ["n0", "n2", "n10"]
    assert telemetry.energy_joules == 3 * 300.0 * 100


def test_a_run_without_telemetry_has_no_figures_and_no_warnings(tmp_path: Path) -> None:
    telemetry = summary(tmp_path / "telemetry")

    assert (telemetry.devices, telemetry.energy_joules, texts(telemetry)) == ((), None, [])


# --- the file


@given(st.data())
def test_a_torn_last_line_is_forgiven(data: st.DataObject) -> None:
    lines = [msgspec.json.encode(session([accelerator(0)])) + b"\n"]
    lines += [b'{"line":"sample","device":"GPU-0","at":%d.0,"wall_unix":1.0}\n' % at for at in range(3)]
    cut = data.draw(st.integers(1, len(lines[-1])))

    torn = list(parse([*lines[:-1], lines[-1][:-cut]], "torn"))

    assert torn == list(parse(lines[:-1], "whole"))


WRONG_LINES = {
    "torn": b'{"line":"sa\n',
    "binary": bytes(range(128, 256)) + b"\n",
    "no text": b'{"line":"sample","device":"\xff\xfe","at":3.0,"wall_unix":1.0}\n',
    "wrong type": b'{"line":"sample","device":"GPU-0","at":"soon","wall_unix":1.0}\n',
    "no number": b'{"line":"sample","device":"GPU-0","at":NaN,"wall_unix":1.0}\n',
    "too large": b'{"line":"sample","device":"GPU-0","at":1e999,"wall_unix":1.0}\n',
    "too deep": b'{"line":' * 100_000 + b"\n",
    "empty": b"\n",
    "nothing known": b'{"line":"song","text":"la"}\n',
    "unannounced device": b'{"line":"sample","device":"GPU-9","at":0.0,"wall_unix":1.0}\n',
}


@pytest.mark.parametrize("wrong", WRONG_LINES.values(), ids=WRONG_LINES)
def test_a_damaged_line_is_left_out_and_warned_of(tmp_path: Path, wrong: bytes) -> None:
    folder = tmp_path / "telemetry"
    write(folder, [accelerator(0)], seconds=100)
    whole = summary(folder)
    file = folder / "0.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], wrong, *lines[4:]]))

    damaged = summary(folder)

    assert damaged.devices == whole.devices
    (text,) = texts(damaged, "warning")
    assert text.startswith("telemetry damaged: line 5 of telemetry/0.jsonl left out of every figure (")


def test_many_damaged_lines_of_a_file_are_one_warning(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], seconds=3)
    file = tmp_path / "0.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([b"lost\n", *lines[1:]]))  # the session: the owner of all later lines is unknown

    (text,) = texts(summary(tmp_path), "warning")

    assert f"line 1 of {tmp_path.name}/0.jsonl, and {len(lines) - 1} more of its lines" in text


def test_a_file_that_cannot_be_read_is_warned_of_by_name(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], worker=1)
    (tmp_path / "0.jsonl").mkdir()

    telemetry = summary(tmp_path)

    assert len(telemetry.devices) == 2
    (text,) = texts(telemetry, "warning")
    assert text.startswith(f"telemetry damaged: {tmp_path.name}/0.jsonl left out of every figure (it cannot be read")


def test_telemetry_of_another_version_is_warned_of() -> None:
    lines = [
        msgspec.json.encode(msgspec.structs.replace(session([HOST]), schema=2)) + b"\n",
        b'{"line":"sample","device":"host","at":0.0,"wall_unix":1.0}\n',
    ]

    damaged = summarise(parse(lines, "made up"), (0.0, 1.0)).damaged

    assert [(one.line, one.lines) for one in damaged] == [(1, 2)] and "version 2" in damaged[0].why


def test_missing_values_are_absent_in_a_line_and_none_when_read(tmp_path: Path) -> None:
    write(tmp_path, [accelerator(0)], {"GPU-0": lambda _, __: {"power_watts": 0.0}}, seconds=0)

    line = (tmp_path / "0.jsonl").read_bytes().splitlines()[-1]
    *_, last = read(tmp_path)

    assert set(msgspec.json.decode(line)) == {"line", "device", "at", "wall_unix", "power_watts"}
    assert isinstance(last, Sample) and last.look.power_watts == 0.0 and last.look.utilisation is None
