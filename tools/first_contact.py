"""First contact with an accelerator: the figures that decide what is built next, in about ten minutes of device time.

    python -m tools.first_contact FOLDER [--seconds S] [--small] [STEP…]

Each step is a process with a time limit. FOLDER keeps its rows (STEP.jsonl), its output (STEP.log) and table.md. A finished
step is not repeated, and a step that fails does not stop the next one. The steps drive loop, ranks, memory search and decoders
of this program directly. They need torch, NumPy, Pillow and six wheels, and neither Ray nor Hydra. The wheels are unpacked on
a machine with a network, and the folder SITE is then in PYTHONPATH:

    python3 -m pip install --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        --target SITE msgspec simplejpeg safetensors psutil threadpoolctl pyyaml

The call stops by itself if there is no device, if it is slower than its kind, or if two steps in a row reach their limits.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from aiperf.data.dataset_config import DataSetConf
    from aiperf.train.execution_mode import ExecutionMode
    from morphism import Graph

# --- the plan

STEPS = {
    "look": 60,
    "rates": 150,
    "kernels": 90,
    "regions": 100,
    "compiled": 200,
    "warm": 60,
    "memory": 200,
    "loop": 120,
    "group": 90,
    "overflow": 30,
    "compiled_graphs": 160,
}
"""Seconds that each step may take, in their order. A call has 560 s, a second one 230 s for loop and all after it."""
LEAST_SECONDS = 25
"""No step begins with less time left."""
EXPECTED = {
    "device": "an H100 or H200, torch 2.11 or later",
    "copy": "3.0 TB/s (H100), 4.3 TB/s (H200)",
    "matrix product": "770-800 TFLOPS in BF16",
    "wait": "less than 0.3 of a core",
    "eager": "3,450-4,400 images/s (H100), 4,400-5,700 (H200), first step 5-15 s",
    "no search": "0-20 % less, first step below 3 s",
    "large batch": "0-3 % more",
    "fp16": "5-20 % more: cuDNN normalises NHWC in FP16, not in BF16",
    "graphs": "0-3 % more",
    "eager, small batch": "bound by launches below about 32 images",
    "graphs, small batch": "1.2-2 × eager",
    "kernels, eager": "convolution 21-27 ms (H100), 19-25 (H200), others 36-46 and 25-32",
    "kernels, regions": "as eager, with fewer others",
    "regions": "1.20-1.33 × eager, first step 15-40 s",
    "compiled": "1.20-1.35 × eager, first step 60-120 s on 16 cores",
    "warm": "as compiled, first step 8-20 s",
    "compiled_graphs": "as compiled, 0-3 % more",
    "texts": "0 errors that do not count as full memory",
    "largest batch": "750-1,200 (H100), 1,400-2,300 (H200), in less than 120 s",
    "loop, synthetic": "0.97-1.02 × eager",
    "loop, cpu": "3,000-4,400 images/s on 16 cores",
    "loop, gpu": "1,500-3,000 images/s",
    "group": "nccl, ready in less than 60 s",
    "rank gets SIGKILL": "Crashed, and names the signal",
    "rank gets SIGSTOP": "Crashed, and names the signal",
    "trial after": "TrialDone",
    "overflow": "largest change of a weight below 0.01",
}
"""What paper or processors let expect for each row: ResNet-50 v1.5, 224×224, batch 256, BF16."""


@dataclass(frozen=True)
class Rule:
    """What follows if a figure, divided by `by` if that is not empty, is at least `least`. A missing figure decides nothing."""

    figure: str
    by: str
    least: float
    follows: str

    def holds(self, figures: dict[str, float]) -> bool:
        if self.figure not in figures or (self.by and not figures.get(self.by)):
            return False
        return figures[self.figure] / (figures[self.by] if self.by else 1.0) >= self.least


DECISIONS = (
    Rule("regions", "eager", 1.15, "add the accelerator to FASTER_BY_REGIONS (aiperf/train/execution_mode.py)"),
    Rule("compiled", "regions", 1.10, "compile whole networks for trials above an hour, next to the trial before"),
    Rule("graphs, small batch", "eager, small batch", 1.2, "use CUDA graphs for steps below 10 ms"),
    Rule(
        "fp16",
        "eager",
        1.1,
        "compare FP16 and BF16 with regions: BF16 stays the default if they differ by less than 3 %",
    ),
    Rule("no search", "eager", 0.97, "switch cudnn.benchmark off for trials below ten minutes"),
    Rule("loop, synthetic", "loop, cpu", 1.11, "work on the input first: decoding is slower than training"),
    Rule("texts", "", 1, "do not release: every start of a worker runs into an unknown text (aiperf/train/device.py)"),
)
SLOW = "give the device back and take another one later: it is slower than its kind"
STOPS: tuple[tuple[str, Callable[[dict[str, float], list[str]], bool]], ...] = (
    ("give the device back: there is none", lambda figures, ends: figures.get("device") == 0),
    (SLOW, lambda figures, ends: figures.get("matrix product", inf) < 600e12 or figures.get("copy", inf) < 2.5e12),
    (
        "no rate was measured: read rates.log, and do not repeat it",
        lambda figures, ends: ends[-1].startswith("rates") and "eager" not in figures,
    ),
    (
        "two steps in a row reached their limit: the device may hang. Give it back",
        lambda figures, ends: ["limit" in each for each in ends[-2:]] == [True, True],
    ),
)
"""Conditions after a step under which no other step begins: figures so far, and the end of each step of this call."""

# --- the steps. Each yields rows (name, figure or None, text)

Rows = Iterator[tuple[str, float | None, str]]
SMALL = os.environ.get("FIRST_CONTACT_SMALL") == "1"
NETWORK, IMAGE, CHANNELS, CLASSES = ("digits_small", 8, 1, 10) if SMALL else ("resnet50_v1_5", 224, 3, 1000)
BATCH, LARGE, FEW = (8, 16, 4) if SMALL else (256, 448, 32)
TIMED_SECONDS = 0.2 if SMALL else 2.0


def here() -> torch.device:
    import torch

    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def sync() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(act: Callable[[], object], seconds: float = TIMED_SECONDS) -> float:
    for _ in range(3):
        act()
    sync()
    began, times = time.perf_counter(), 0
    while times < 3 or time.perf_counter() - began < seconds:
        act()
        times += 1
        if times % 4 == 0:
            sync()
    sync()
    return (time.perf_counter() - began) / times


def network_graph() -> Graph:
    from morphism import start

    return start(NETWORK, image=IMAGE, channels=CHANNELS, classes=CLASSES)


@dataclass
class Prepared:
    step: Callable[[], None]
    first: float
    close: Callable[[], None]


def prepared(batch: int, precision: str, mode: ExecutionMode, *, is_searched: bool) -> Prepared:
    import torch

    from aiperf.train.execution import Execution
    from aiperf.train.memory_limits import blank
    from aiperf.train.optimiser import initial_state, load_state, optimiser_of
    from aiperf.train.precision import Precision
    from aiperf.train.torch_network import build, initialise
    from aiperf.train.trainer_config import TrainerConf

    device, graph = here(), network_graph()
    chosen = Precision(precision, device.type)
    chosen.switch_on()
    torch.backends.cudnn.benchmark = is_searched and device.type == "cuda"
    network = build(graph)
    initialise(network, 0)
    network.to(device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]  # torch's stub lacks it
    optimiser, scaler = optimiser_of(network, TrainerConf()), chosen.scaler()
    load_state(optimiser, network, initial_state(network, TrainerConf()))
    images = blank(graph, batch, device, chosen, channels_last=True).normal_()
    labels = torch.zeros(batch, dtype=torch.int64, device=device)
    began = time.perf_counter()
    execution = Execution(network, mode, images, chosen)

    def step() -> None:
        with chosen.computing():
            loss = torch.nn.functional.cross_entropy(network(images).float(), labels, label_smoothing=0.1)
        (loss if scaler is None else scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]
        if scaler is None:
            optimiser.step()
        else:
            scaler.step(optimiser)
            scaler.update()
        optimiser.zero_grad()

    step()
    sync()
    execution.verify()
    return Prepared(step, time.perf_counter() - began, execution.close)


def rate(
    name: str,
    batch: int = BATCH,
    precision: str = "bf16",
    mode: ExecutionMode | None = None,
    *,
    is_searched: bool = True,
) -> Rows:
    """Yield the images per second of a training step. An error is a row of the table."""
    import torch

    from aiperf.programs import ProgramFailed, ask
    from aiperf.system.peaks import peak
    from aiperf.train.execution_mode import EAGER
    from morphism import cost

    try:
        ready = prepared(batch, precision, mode or EAGER, is_searched=is_searched)
        seconds = seconds_of(ready.step)
        text = f"{batch / seconds:.0f} images/s, {1e3 * seconds:.2f} ms, first step {ready.first:.1f} s"
        if torch.cuda.is_available():
            of = cost(network_graph())
            flops = (of.tensor_forward_flops + of.tensor_backward_flops) * batch / seconds
            dense = peak(torch.cuda.get_device_name(), None, "fp16" if precision == "fp16" else "bf16")
            text += f", MFU {flops / dense:.1%}" if dense else ""
            text += f", {torch.cuda.max_memory_reserved() / 1e9:.1f} GB"
            for _ in range(8):  # so that power and clock are those of a busy device
                ready.step()
            with suppress(ProgramFailed):
                fields = "power.draw,clocks.sm,temperature.gpu"
                text += ", " + ask(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], seconds=5).words
            sync()
        yield name, batch / seconds, text
        ready.close()
    except Exception as error:  # noqa: BLE001  # a failed figure is a row, and the next one is measured
        yield failed(name, error)
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def failed(name: str, error: Exception) -> tuple[str, None, str]:
    traceback.print_exc()
    return name, None, f"FAILED {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"


def look() -> Rows:
    import torch

    from aiperf.train.device import timeline_of

    count, device = torch.cuda.device_count(), here()
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count)) or "no accelerator"
    yield "device", float(SMALL or count), f"torch {torch.__version__}, {names}, {len(os.sched_getaffinity(0))} cores"
    if device.type != "cuda":
        return
    source = torch.empty(2**20 if SMALL else 2**30, dtype=torch.uint8, device=device)
    target, side = torch.empty_like(source), 256 if SMALL else 8192
    speed = 2 * source.numel() / seconds_of(lambda: target.copy_(source))
    yield "copy", None if SMALL else speed, f"{speed / 1e12:.2f} TB/s"
    left, right = (torch.randn(side, side, device=device).bfloat16() for _ in range(2))
    speed = 2 * side**3 / seconds_of(lambda: torch.mm(left, right))
    yield "matrix product", None if SMALL else speed, f"{speed / 1e12:.0f} TFLOPS"
    timeline = timeline_of(device)
    for _ in range(400):
        torch.mm(left, right)
    mark, wall, processor = timeline.mark(), time.monotonic(), time.process_time()
    timeline.second(mark)
    wall, processor = time.monotonic() - wall, time.process_time() - processor
    yield "wait", processor / wall, f"{processor / wall:.2f} of a core in {wall:.2f} s"


def rates() -> Rows:
    from aiperf.train.execution_mode import ExecutionMode

    on_cuda, graphs = here().type == "cuda", ExecutionMode(cuda_graphs=True)
    yield from rate("eager")
    yield from rate("no search", is_searched=False)
    yield from rate("large batch", LARGE)
    yield from rate("fp16", precision="fp16")
    if on_cuda:
        yield from rate("graphs", mode=graphs)
    yield from rate("eager, small batch", FEW)
    if on_cuda:
        yield from rate("graphs, small batch", FEW, mode=graphs)


def kernels() -> Rows:
    """Time of a step by class of kernel. The twelve longest kernels are printed."""
    from torch.profiler import ProfilerActivity, profile

    from aiperf.train.execution_mode import EAGER, REGIONAL
    from aiperf.train.tracing.kernel_trace import kernel_class

    on_cuda, steps = here().type == "cuda", 3
    for name, mode in (("kernels, eager", EAGER), ("kernels, regions", REGIONAL)):
        ready = prepared(BATCH, "bf16", mode, is_searched=True)
        for _ in range(steps):
            ready.step()
        sync()
        with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_cuda else [])]) as profiled:
            for _ in range(steps):
                ready.step()
            sync()
        classes, longest = dict[str, float](), dict[str, float]()
        for event in profiled.events() or ():
            if (event.device_type.name == "CUDA") != on_cuda or (not on_cuda and event.cpu_parent):
                continue
            milliseconds = (event.device_time_total if on_cuda else event.cpu_time_total) / 1e3 / steps
            for sums, key in ((classes, kernel_class(event.name)), (longest, event.name)):
                sums[key] = sums.get(key, 0.0) + milliseconds
        yield name, None, ", ".join(f"{each} {most:.1f} ms" for each, most in largest(classes, 7))
        for each, most in largest(longest, 12):
            print(f"{most:9.2f} ms {each[:150]}")
        ready.close()


def largest(sums: dict[str, float], count: int) -> list[tuple[str, float]]:
    return sorted(sums.items(), key=lambda one: -one[1])[:count]


def regions() -> Rows:
    from aiperf.train.execution_mode import REGIONAL

    yield from rate("regions", mode=REGIONAL)


def compiled(name: str = "compiled", *, cuda_graphs: bool = False) -> Rows:
    from aiperf.train.execution_mode import ExecutionMode

    yield from rate(name, mode=ExecutionMode(compiled=True, cuda_graphs=cuda_graphs))


def warm() -> Rows:
    """Compiled again in another process, with the caches of the first one."""
    yield from compiled("warm")


def compiled_graphs() -> Rows:
    if here().type == "cuda":
        yield from compiled("compiled_graphs", cuda_graphs=True)


def memory() -> Rows:
    import torch

    from aiperf.train.device import is_out_of_memory
    from aiperf.train.memory_limits import largest_batch
    from aiperf.train.precision import Precision
    from aiperf.train.trainer_config import TrainerConf

    device = here()
    precision = Precision("bf16", device.type)
    precision.switch_on()
    if device.type == "cuda" and not SMALL:
        convolution = torch.nn.Conv2d(256, 256, 3, padding=1, bias=False, device=device)
        images = torch.randn(64, 256, 56, 56, device=device, dtype=torch.bfloat16, requires_grad=True)
        unknown, texts = 0, []
        for left in (8e9, 1e9, 5e8, 2.5e8, 2.1e8, 1.8e8, 1.6e8, 1.3e8, 6e7):
            torch.cuda.empty_cache()
            held, said = None, "fits"
            try:
                free = torch.cuda.mem_get_info()[0]
                held = torch.empty(max(1, int(free - left)), dtype=torch.uint8, device=device)
                with precision.computing():
                    convolution(images).float().sum().backward()
                sync()
            except RuntimeError as error:
                said = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:70]}"
                unknown += not is_out_of_memory(error)
            texts.append(f"{left / 1e6:.0f} MB left: {said}")
            images.grad = None
            convolution.zero_grad()
            del held
        yield "texts", float(unknown), f"{unknown} not recognised; {'; '.join(texts)}"
        del convolution, images
        torch.cuda.empty_cache()
    limit = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" and not SMALL else 10**8
    began = time.monotonic()
    largest = largest_batch(network_graph(), device, precision, TrainerConf(), limit)
    yield "largest batch", float(largest), f"{largest} images in {time.monotonic() - began:.0f} s"


def loop() -> Rows:
    """The loop of this program with images that are generated, and decoded by cores and by nvJPEG."""
    from aiperf.data.dataset_config import ImagenetConf, SyntheticConf

    steps = 4 if SMALL else 40
    generated = SyntheticConf(
        image=IMAGE, channels=CHANNELS, classes=10, training_images=BATCH * steps, validation_images=max(BATCH, 10)
    )
    yield from loop_rate("loop, synthetic", generated)
    with tempfile.TemporaryDirectory() as folder:
        write_photographs(Path(folder) / "set", *((8, 1) if SMALL else (1024, 10)))
        for decoder in ("cpu", "gpu"):
            if decoder == "cpu" or (here().type == "cuda" and not SMALL):
                yield from loop_rate(f"loop, {decoder}", ImagenetConf(root=f"{folder}/set", decoder=decoder))


def loop_rate(name: str, conf: DataSetConf) -> Rows:
    from aiperf.data.opening import open_data
    from aiperf.journal.messages import EpochDone
    from aiperf.train.loop import train_here
    from aiperf.train.trainer_config import TrainerConf
    from benchmarks.pairs import order
    from morphism import start

    try:
        with open_data(conf) as data, tempfile.TemporaryDirectory() as folder:
            of = data.description
            graph = start(NETWORK, image=of.image, channels=of.channels, classes=of.classes)
            trainer = TrainerConf(compile="off", precision="bf16")
            messages = list(train_here(order(0, BATCH, 2), trainer, data, graph, Path(folder), here()))
            sums = [message.advanced for message in messages if isinstance(message, EpochDone)][-1]
            busy, waited = sums.busy_seconds - sums.validation_seconds, sums.input_seconds
            speed = sums.training_images / (busy + waited)
            text = f"{speed:.0f} images/s, input {waited / (busy + waited):.1%}, checkpoint {sums.checkpoint_seconds:.2f} s"
            yield name, speed, f"{text} ({data.how})"
    except Exception as error:  # noqa: BLE001  # as in `rate`
        yield failed(name, error)


def write_photographs(root: Path, images: int, names: int) -> None:
    """Write JPEG files of 500×375 pixels and about 110 kB each, as in ImageNet. `names`: names of each file."""
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(0)
    for split, count in (("train", images), ("val", 2)):
        for number in range(count):
            folder = root / split / f"class{number % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            coarse = Image.fromarray(generator.integers(0, 256, (94, 125, 3), np.uint8))
            coarse.resize((500, 375), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg", quality=95)
            for more in range(1, names):
                os.link(folder / f"{number}.jpg", folder / f"{number}-{more}.jpg")


def group() -> Rows:
    """A rank as a process, with NCCL on an accelerator: it trains, is killed, is stopped, and trains again."""
    from aiperf.data.dataset_config import SyntheticConf
    from aiperf.journal.events import TrialPrepared
    from aiperf.journal.messages import Crashed, Message, TrialDone
    from aiperf.train.ranks.group import RankGroup
    from aiperf.train.ranks.protocol import Recipe
    from aiperf.train.trainer_config import TrainerConf
    from benchmarks.pairs import order
    from morphism import encode, start

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        graph = start("digits_small", image=8, channels=1, classes=10)
        trainer = TrainerConf(ranks=1, collective="torch", hang_seconds=8.0, compile="off")
        images = SyntheticConf(image=8, channels=1, training_images=2000, validation_images=100)
        recipe = Recipe(trainer, images, encode(graph), Path(folder), min(16, len(os.sched_getaffinity(0))))
        ranks = RankGroup(recipe, accelerators=int(here().type == "cuda"))

        def train(trial: int, epochs: int, then: signal.Signals | None = None) -> Message:
            ranks.order(order(trial, 64, epochs))
            messages: list[Message] = []
            while not (messages and isinstance(messages[-1], TrialDone | Crashed)):
                messages += ranks.messages(timeout=60)
                if then is not None and any(isinstance(message, TrialPrepared) for message in messages):
                    os.kill(ranks.pids()[0], then)
                    then = None
            return messages[-1]

        try:
            began = time.monotonic()
            ready = ranks.start()
            yield "group", None, f"{ready.collective}, {ready.device}, ready after {time.monotonic() - began:.0f} s"
            train(1, 3)
            for trial, sent in enumerate((signal.SIGKILL, signal.SIGSTOP), 2):
                began = time.monotonic()
                last = train(trial, 10**6, sent)
                took, reason = time.monotonic() - began, getattr(last, "reason", "")
                yield f"rank gets {sent.name}", None, f"{type(last).__name__} after {took:.0f} s: {reason[:80]}"
            yield "trial after", None, type(train(9, 3)).__name__
        finally:
            ranks.close()
            for log in Path(folder).glob("logs/*.log"):
                print(log.read_text(errors="replace")[-600:])


def overflow() -> Rows:
    import torch

    from aiperf.train.optimiser import initial_state, load_state, optimiser_of
    from aiperf.train.trainer_config import TrainerConf

    device = here()
    torch.full((2**22,), 1e30, device=device)  # leaves its bytes in the allocator
    layer = torch.nn.Linear(512, 512, device=device)
    before = layer.weight.detach().clone()
    optimiser, scaler = optimiser_of(layer, TrainerConf()), torch.amp.GradScaler(device.type)
    load_state(optimiser, layer, initial_state(layer, TrainerConf()))
    for factor in (inf, 0.0):
        scaler.scale(layer(torch.ones(8, 512, device=device)).sum() * factor).backward()
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad()
    change = float((layer.weight - before).abs().max())
    yield "overflow", change, f"largest change {change:.2g}"


# --- calls of the steps, and the table


def run_step(name: str, out: Path, seconds: float, *, is_small: bool) -> str:
    """Run a step in a process group of its own. Return how it ended, or '' for a success."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(out / "inductor"), "TRITON_CACHE_DIR": str(out / "triton")}
    environment = os.environ | caches | {"PYTHONUNBUFFERED": "1"} | ({"FIRST_CONTACT_SMALL": "1"} if is_small else {})
    (out / f"{name}.jsonl").unlink(missing_ok=True)
    command = [sys.executable, "-m", "tools.first_contact", str(out), "--run", name]
    with (out / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"reached its limit of {seconds:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"ended with status {status}" if status else ""


def write_rows(name: str, out: Path) -> None:
    with (out / f"{name}.jsonl").open("w", buffering=1) as file:
        try:
            for row in globals()[name]():
                file.write(json.dumps(row) + "\n")
        except Exception as error:  # noqa: BLE001  # a failed step is a row of the table
            file.write(json.dumps(failed(name, error)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # threads of libraries may not end


def rows_of(out: Path, names: Iterable[str]) -> list[tuple[str, float | None, str]]:
    files = [out / f"{name}.jsonl" for name in names]
    return [tuple(json.loads(line)) for file in files if file.exists() for line in file.read_text().splitlines()]


def table(out: Path, ends: dict[str, str]) -> str:
    rows = rows_of(out, STEPS)
    lines = ["| figure | expected | measured |", "| --- | --- | --- |"]
    lines += [f"| {name} | {EXPECTED.get(name, '')} | {text.replace('|', '/')} |" for name, _, text in rows]
    lines += [f"| {name} | | {how} |" for name, how in ends.items() if how]
    figures = {name: figure for name, figure, _ in rows if figure is not None}
    follows = [
        f"- {rule.figure}{' ÷ ' + rule.by if rule.by else ''}: {rule.follows}"
        for rule in DECISIONS
        if rule.holds(figures)
    ]
    return "\n".join([*lines, "", *follows]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.first_contact", description="First contact with an accelerator."
    )
    parser.add_argument("out", type=Path, metavar="FOLDER", help="results, and compiler caches")
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help=f"default: all that are not finished. {', '.join(STEPS)}"
    )
    parser.add_argument("--seconds", type=float, default=560.0, help="time of this call (default: 560)")
    parser.add_argument(
        "--small", action="store_true", help="tiny sizes on any device, without limits: a test of this script"
    )
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    if given.run:
        write_rows(given.run, given.out)
    if unknown := set(given.steps) - set(STEPS):
        parser.error(f"steps are {', '.join(STEPS)}, but found {', '.join(sorted(unknown))}: correct the name")
    given.out.mkdir(parents=True, exist_ok=True)
    deadline, ends = time.monotonic() + given.seconds, dict[str, str]()
    for name in given.steps or STEPS:
        left = deadline - time.monotonic()
        done = given.out / f"{name}.done"
        if done.exists():
            continue
        if left < LEAST_SECONDS:
            ends[name] = "next call"
            continue
        ends[name] = run_step(name, given.out, left if given.small else min(left, STEPS[name]), is_small=given.small)
        print(f"[{given.seconds - deadline + time.monotonic():.0f} s] {name} {ends[name] or 'finished'}", flush=True)
        if not ends[name]:
            done.touch()
        (given.out / "table.md").write_text(table(given.out, ends))
        figures = {row: figure for row, figure, _ in rows_of(given.out, STEPS) if figure is not None}
        told = [f"{step} {how}" for step, how in ends.items()]
        if stop := next((words for words, applies in STOPS if applies(figures, told)), None):
            print(f"stopped: {stop}")
            break
    print(table(given.out, ends), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
