"""Checks for the first run on a machine with accelerators: `tools/first_contact.sh FOLDER [CHECK…]`.

Each check is a process with a time limit and leaves FOLDER/NAME.json and FOLDER/NAME.log. A failed check is a row of the table,
and the next one runs. A call ends before SECONDS_A_CALL (570). The next call does not repeat finished checks. To repeat a
check, remove its JSON file. Expected rates are estimates for one H200.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NO_DEVICE = "no accelerator"
RESNET = [
    "dataset=synthetic",
    "dataset.image=224",
    "dataset.classes=1000",
    "dataset.training_images=40000",
    "dataset.validation_images=2000",
    "start=resnet50_v1",
]


@dataclass(frozen=True)
class Row:
    """Result of a check. `verdict`: passed, failed, look (a number without a limit) or the reason for a missing result."""

    name: str
    expected: str
    measured: str
    verdict: str


@dataclass(frozen=True)
class Check:
    name: str
    expected: str
    seconds: float
    """Time limit of its process."""
    measure: Callable[[Path], tuple[str, str]]
    """Returns the measured text and the verdict. The argument is a folder for files."""
    on_cpu: bool = False


CHECKS: list[Check] = []


def check(
    expected: str, seconds: float, *, on_cpu: bool = False, name: str = ""
) -> Callable[..., Callable[..., object]]:
    """Return a decorator that adds a function to CHECKS.

    Args:
        expected: Text of the expected result.
        seconds: Time limit of the check's process.
        on_cpu: True if the check also runs without an accelerator.
        name: Name of the check. Default: the function's name.
    """

    def register(measure: Callable[[Path], tuple[str, str]]) -> Callable[[Path], tuple[str, str]]:
        CHECKS.append(Check(name or measure.__name__.replace("_", "-"), expected, seconds, measure, on_cpu))
        return measure

    return register


def verdict(is_right: bool) -> str:
    return "passed" if is_right else "failed"


def has_accelerator() -> bool:
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()


def aiperf(*options: str) -> str:
    """Return the output of an AIPerf command. Raise RuntimeError with its last lines if it fails."""
    return module("aiperf", *options)


def module(name: str, *options: str, **environment: str) -> str:
    """Return the output of a module's command line. Raise RuntimeError with its last lines if it fails."""
    command = [sys.executable, "-m", name, *options]
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=os.environ | environment
    )
    print(ended.stdout)
    if ended.returncode:
        lines = [line for line in ended.stdout.splitlines() if line.strip()]
        raise RuntimeError(f"status {ended.returncode}: {' | '.join(lines[-3:])}")
    return ended.stdout


def events(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    """Return the events of the newest run under a folder, of these kinds only if some are named. ValueError without a run."""
    journal = max(folder.glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return [event for event in lines if not kinds or event["event"] in kinds]


def seconds_of(act: Callable[[], object], times: int) -> float:
    """Return the seconds of one execution on the device, after three warm-up executions."""
    import torch

    for _ in range(3):
        act()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(times):
        act()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / times


# --- the machine


@check("a build of torch that sees every device", 120, on_cpu=True)
def versions(folder: Path) -> tuple[str, str]:
    import torch

    count = torch.cuda.device_count()
    devices = [torch.cuda.get_device_properties(index) for index in range(count)]
    names = [f"{each.name} with {each.total_memory / 1e9:.1f} GB" for each in devices] or [NO_DEVICE]
    text = f"torch {torch.__version__}, CUDA {torch.version.cuda}, HIP {torch.version.hip}: {', '.join(names)}"
    return text, verdict(bool(count) or not has_accelerator())


@check("no faults, 70 to 102 % of the dense peak, at least 80 % of the memory's bandwidth", 300, on_cpu=True)
def preflight(folder: Path) -> tuple[str, str]:
    from aiperf.system.peaks import memory_bandwidth, peak

    depth = "full" if has_accelerator() else "quick"
    nodes = json.loads(aiperf("preflight", "dataset=digits", f"preflight.probes={depth}", f"runs={folder}", "--json"))
    faults = [fault for node in nodes for fault in node["faults"]]
    if not has_accelerator():
        return "; ".join(faults) or "no faults", verdict(not faults)
    readings = nodes[0]["readings"]
    name, precision = readings["accelerators"]["facts"]["devices"][0]["model"], readings["matrix product"]["facts"]
    product, memory = (
        max(max(each) for each in readings[probe]["series"].values()) for probe in ("matrix product", "memory")
    )
    text = f"{product / 1e12:.0f} TFLOPS, {memory / 1e12:.2f} TB/s, {'; '.join(faults) or 'no faults'}"
    dense, sheet = peak(name, None, precision["precision"]), memory_bandwidth(name, None)
    if dense is None or sheet is None:
        return f"{text}; {name!r} has no row in the peak table", "look"
    is_right = not faults and 0.7 < product / dense < 1.02 and memory > 0.8 * sheet
    return f"{text}, {product / dense:.0%} and {memory / sheet:.0%} of the table", verdict(is_right)


@check("the energy counter is within 10 % of power × time", 120)
def energy(folder: Path) -> tuple[str, str]:
    import torch

    from aiperf.system.samplers.nvml import NvmlSampler

    sampler, power = NvmlSampler(), []
    one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    began, first = time.monotonic(), sampler.sample()[0]
    while time.monotonic() < began + 20:
        for _ in range(20):
            torch.mm(one, one)
        torch.cuda.synchronize()
        power.append(sampler.sample()[0].power_watts or 0.0)
    last, passed = sampler.sample()[0], time.monotonic() - began
    sampler.close()
    mean = sum(power) / len(power)
    if first.energy_joules is None or last.energy_joules is None:
        return f"no counter; {mean:.0f} W", "look"
    counted = (last.energy_joules - first.energy_joules) / passed
    return f"{counted:.0f} W counted, {mean:.0f} W sampled", verdict(abs(counted / mean - 1) < 0.1)


@check("the processors of each rank are on its accelerator's NUMA node", 120)
def numa(folder: Path) -> tuple[str, str]:
    import torch

    from aiperf.train.ranks.rank import pci_address

    count = torch.cuda.device_count()
    return numa_of([pci_address(torch.device("cuda", index)) for index in range(count)], os.sched_getaffinity(0))


def numa_of(addresses: list[str], allowed: set[int], sys: Path = Path("/sys")) -> tuple[str, str]:
    """Return (text, verdict) on the NUMA node of each accelerator. 'passed' if the processors of each rank are on its node.

    'look' if a node is unknown. `addresses`: PCI addresses. `allowed`: processors that the ranks may use.
    """
    from aiperf.system.host import near_processors

    parts, outcomes = [], []
    for number, address in enumerate(addresses):
        file = sys / f"bus/pci/devices/{address}/numa_node"
        node = int(file.read_text()) if file.exists() else -1
        chosen = near_processors(address, allowed, max(1, len(allowed) // len(addresses)), sys)
        on_node = {cpu for cpu in chosen if (sys / f"devices/system/node/node{node}/cpu{cpu}").exists()}
        outcomes.append("look" if node < 0 else verdict(on_node == chosen))
        parts.append(f"{number}: node {node if node >= 0 else 'unknown'}, {len(on_node)} of {len(chosen)} processors")
    return "; ".join(parts), next((name for name in ("failed", "look") if name in outcomes), "passed")


# --- parts of a step


@check("no weight changes in a step that overflows", 120)
def fp16_overflow(folder: Path) -> tuple[str, str]:
    import torch

    from aiperf.train.optimiser import give_momentum, sgd
    from aiperf.train.trainer_config import TrainerConf

    worst = 0.0
    for _ in range(20):
        torch.full((2**24,), 1e30, device="cuda")  # leaves its bytes in the allocator
        layer = torch.nn.Linear(1024, 1024, device="cuda")
        before = layer.weight.detach().clone()
        optimiser, scaler = sgd(layer, TrainerConf()), torch.amp.GradScaler("cuda")
        give_momentum(optimiser, layer, {name: torch.zeros_like(each) for name, each in layer.named_parameters()})
        for factor in (torch.inf, 0.0):
            scaler.scale(layer(torch.ones(8, 1024, device="cuda")).sum() * factor).backward()
            scaler.step(optimiser)
            scaler.update()
            optimiser.zero_grad()
        worst = max(worst, float((layer.weight - before).abs().max()))
    return f"largest change {worst:.2g}", verdict(worst < 1e-2)


@check("less than 30 % of a core while the host waits for the device", 120)
def waiting(folder: Path) -> tuple[str, str]:
    import torch

    from aiperf.train.device_timer import timeline_of

    timeline = timeline_of(torch.device("cuda", 0))
    one = torch.randn(8192, 8192, device="cuda")
    for _ in range(200):
        torch.mm(one, one)
    mark, wall, processor = timeline.mark(), time.monotonic(), time.process_time()
    timeline.second(mark)
    wall, processor = time.monotonic() - wall, time.process_time() - processor
    return f"{processor / wall:.0%} of a core in a wait of {wall:.1f} s", verdict(wall > 0.2 and processor < 0.3 * wall)


@check("a checkpoint's copy delays a busy stream by less than 10 ms", 120)
def checkpoint_copy(folder: Path) -> tuple[str, str]:
    import threading

    import torch

    from aiperf.train.checkpoints.checkpoint import Snapshot

    one = torch.randn(4096, 4096, device="cuda")
    weights = {"w": torch.randn(205_000_000 // 4, device="cuda")}
    snapshot = Snapshot(trial=0, epoch=1, fingerprint="", weights=weights, momentum={}, scaler={})

    def busy() -> float:
        return seconds_of(lambda: [torch.mm(one, one) for _ in range(50)], 10)

    snapshot.on_host()
    alone = busy()
    copy = threading.Thread(target=snapshot.on_host)
    copy.start()
    during = busy()
    copy.join()
    delay = (during - alone) * 10e3
    return f"{delay:.1f} ms", verdict(delay < 10)


@check("a first step in less than 60 s without MIOPEN_FIND_MODE=FAST", 540)
def miopen_find(folder: Path) -> tuple[str, str]:
    import torch

    if torch.version.hip is None:
        return "torch is not built for ROCm", "not run"
    seconds = []
    for name, mode in (("fast", {"MIOPEN_FIND_MODE": "FAST"}), ("usual", {})):
        # an empty cache each, so that neither finds the kernels of the other
        caches = dict.fromkeys(("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR"), str(folder / name))
        output = module("tools.first_contact", "--first-step", **mode, **caches)
        seconds.append(float(output.strip().splitlines()[-1]))
    fast, usual = seconds
    return f"{usual:.0f} s, with FAST {fast:.0f} s", verdict(usual < 60)


def first_step(start_name: str = "resnet50_v1", image: int = 224, batch: int = 256, kind: str = "cuda") -> float:
    """Return the seconds of the first step of a network in this process, with the search for algorithms."""
    import torch

    from aiperf.train.memory.ceiling import blank, rehearse
    from aiperf.train.network.module import build
    from aiperf.train.precision import Precision
    from morphism import start

    device, precision = torch.device(kind), Precision("bf16", kind)
    precision.switch_on()
    graph = start(start_name, image=image, channels=3, classes=1000)
    network = build(graph).to(device)
    images = blank(graph, batch, device, precision, channels_last=False)
    began = time.monotonic()
    rehearse(network, images, precision)
    if kind == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - began


def input_rate(decoder: str) -> Callable[[Path], tuple[str, str]]:
    def measure(folder: Path) -> tuple[str, str]:
        import torch

        from aiperf.data.dataset_config import ImagenetConf
        from aiperf.data.opening import open_data

        write_photographs(folder / "set")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        images, began = 0, time.monotonic()
        with open_data(ImagenetConf(root=str(folder / "set"), decoder=decoder)) as data:
            for epoch in range(1000):
                batches = data.training(
                    256,
                    rank=0,
                    ranks=1,
                    epoch=epoch,
                    seed=0,
                    device=device,
                    channels_last=True,
                    dtype=torch.bfloat16,
                )
                images += sum(each.count for each in batches)
                if device.type == "cuda":
                    torch.cuda.synchronize()
                if epoch == 0:  # reads the files, and loads libraries
                    images, began = 0, time.monotonic()
                elif time.monotonic() > began + 20:
                    break
        rate, cores = images / (time.monotonic() - began), len(os.sched_getaffinity(0))
        return f"{rate:.0f} images/s on {cores} cores, {rate / cores:.0f} a core", "look"

    return measure


def write_photographs(root: Path, images: int = 1024) -> None:
    """Write a set of JPEG files with the size and about the bytes of ImageNet's: 500×375, 110 kB."""
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(0)
    for split, count in (("train", images), ("val", 2)):
        for label in range(2):
            (root / split / f"class{label}").mkdir(parents=True)
        for number in range(count):
            coarse = Image.fromarray(generator.integers(0, 256, (94, 125, 3), np.uint8))
            file = root / split / f"class{number % 2}" / f"{number}.jpg"
            coarse.resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=95)


for _decoder, _rate in (("cpu", "about 230 images/s a core"), ("gpu", "more than with decoder cpu")):
    check(_rate, 200, name=f"input-{_decoder}", on_cpu=_decoder == "cpu")(input_rate(_decoder))


# --- runs


@check("a score, a journal in which verify finds no contradiction, a rank that joined with NCCL", 300, on_cpu=True)
def digits_run(folder: Path) -> tuple[str, str]:
    seconds = "150" if has_accelerator() else "90"
    options = ["schedule.warmup_seconds=5", "trainer.ranks=1", "trainer.collective=torch"]
    aiperf("dataset=digits", f"runs={folder}", "name=digits", *options, f"schedule.duration_seconds={seconds}")
    run = next(folder.glob("*digits"))
    verified = aiperf("verify", str(run)).strip().splitlines()[-1]
    prepared, collective = events(folder, "TrialPrepared"), str(events(folder, "WorkerJoined")[0]["collective"])
    is_right = any(run.glob("report*")) and (not has_accelerator() or "nccl" in collective)
    return f"{len(prepared)} trials in {prepared[0]['precision']}, {collective}; {verified}", verdict(is_right)


@check("compilation and graphs: tests on the device pass", 400)
def execution_tests(folder: Path) -> tuple[str, str]:
    options = ["-q", "-p", "no:cacheprovider", "tests/train/test_execution.py"]
    return module("pytest", *options, "-k", "cuda_graphs or released or refused").strip().splitlines()[-1], "passed"


@check("BatchReduced from 8192, no TrialLost", 300)
def out_of_memory(folder: Path) -> tuple[str, str]:
    options = ["batch.default=8192", "batch.largest=8192", "schedule.duration_seconds=150", "schedule.warmup_seconds=2"]
    aiperf(*RESNET, f"runs={folder}", "name=memory", *options, "schedule.epochs=[1]")
    reduced, lost = events(folder, "BatchReduced"), events(folder, "TrialLost", "TrialFailed")
    sizes = [str(event["to_batch_size"]) for event in reduced]
    return f"reduced to {', '.join(sizes)}; {len(lost)} lost", verdict(bool(reduced) and not lost)


@check("joined in less than 3 min, compile_seconds 5 to 20, 4,500 to 6,000 images/s", 480)
def resnet_run(folder: Path) -> tuple[str, str]:
    options = [
        "batch.default=448",
        "schedule.duration_seconds=300",
        "schedule.warmup_seconds=5",
        "schedule.epochs=[3,3]",
    ]
    aiperf(*RESNET, f"runs={folder}", "name=resnet", *options)
    joined, prepared = events(folder, "WorkerJoined")[0], events(folder, "TrialPrepared")[0]
    work = [event.get("interval") or event for event in events(folder, "Progress", "EpochFinished")]
    images = sum(each["training_images"] for each in work)
    busy = sum(each["busy_seconds"] - each["validation_seconds"] for each in work)
    text = f"{prepared['precision']}, {images / busy:.0f} images/s, joined after {joined['at']:.0f} s"
    return f"{text}, compile_seconds {prepared['compile_seconds']:.0f}", "look"


def training_loop(precision: str, options: str) -> Callable[[Path], tuple[str, str]]:
    def measure(folder: Path) -> tuple[str, str]:
        command = f"--networks resnet50_v1_5 --precisions {precision} --no-compile --batch 256 --pairs 6 --seconds 2"
        output = module("benchmarks.trainer_speed", *command.split(), f"--own={options}")
        return output.strip().splitlines()[-1], "look"

    return measure


for _precision in ("bf16", "fp16"):
    for _name, _options, _expected in (
        ("eager", "", "4,500 to 6,000 images/s, 0.97 to 1.02 of the plain loop"),
        ("graphs", "cuda_graphs=on", "0 to 3 % faster than eager"),
        ("compiled", "compile=on", "1.2 to 1.4 × eager"),
        ("compiled-graphs", "compile=on,cuda_graphs=on", "as compiled, or faster"),
    ):
        check(_expected, 480, name=f"resnet-{_precision}-{_name}")(training_loop(_precision, _options))


# --- the table


def row_of(one: Check, out: Path, seconds: float) -> Row:
    """Run a check in a new process group, and return its result. It fails after `seconds`, and its processes are killed.

    `out`: folder of logs and results.
    """
    with (out / f"{one.name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.first_contact", "--one", one.name, str(out)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Row(one.name, one.expected, f"no result in {seconds:.0f} s", "failed")
    result = out / f"{one.name}.result"
    if not result.exists():
        return Row(one.name, one.expected, f"its process ended with status {process.returncode}", "failed")
    measured, outcome = json.loads(result.read_text())
    result.unlink()
    return Row(one.name, one.expected, measured, outcome)


def run_one(name: str, out: Path) -> None:
    one = next(each for each in CHECKS if each.name == name)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=out, ignore_cleanup_errors=True) as folder:
        try:
            result = one.measure(Path(folder))
        except Exception as error:  # noqa: BLE001  # a failed check is a row of the table
            import traceback

            traceback.print_exc()
            result = (f"{type(error).__name__}: {error}".splitlines()[0][:300], "failed")
        for journal in Path(folder).glob("*/journal.jsonl"):
            journal.rename(out / f"{name}.journal.jsonl")
    (out / f"{name}.result").write_text(json.dumps(result))


def table(rows: list[Row]) -> str:
    lines = ["| check | expected | measured | verdict |", "| --- | --- | --- | --- |"]
    cells = (
        [getattr(row, name).replace("|", "/") for name in ("name", "expected", "measured", "verdict")] for row in rows
    )
    return "\n".join([*lines, *(f"| {' | '.join(each)} |" for each in cells)]) + "\n"


def main() -> int:
    if sys.argv[1] == "--one":
        run_one(sys.argv[2], Path(sys.argv[3]))
        return 0
    if sys.argv[1] == "--first-step":
        print(first_step())
        return 0
    out, wanted = Path(sys.argv[1]), sys.argv[2:]
    if unknown := set(wanted) - {one.name for one in CHECKS}:
        sys.exit(f"checks are {', '.join(one.name for one in CHECKS)}. unknown: {', '.join(sorted(unknown))}")
    out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + float(os.environ.get("SECONDS_A_CALL", "570"))
    rows: list[Row] = []
    for one in (each for each in CHECKS if not wanted or each.name in wanted):
        kept, left = out / f"{one.name}.json", deadline - time.monotonic() - 5
        if kept.exists():
            rows.append(Row(**json.loads(kept.read_text())))
        elif not one.on_cpu and not has_accelerator():
            rows.append(Row(one.name, one.expected, NO_DEVICE, "not run"))
        elif one.seconds > left:
            rows.append(Row(one.name, one.expected, "the call's time is over", "next call"))
        else:
            print(f"{one.name} (at most {one.seconds:.0f} s)", file=sys.stderr, flush=True)
            rows.append(row_of(one, out, one.seconds))
            kept.write_text(json.dumps(asdict(rows[-1]), indent=1) + "\n")
        (out / "table.md").write_text(table(rows))
    print(table(rows), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
