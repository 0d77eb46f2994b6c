"""The program on an emulated accelerator: real tensors on cuda:0 in the host's memory, an NVML double, no asynchrony.

It shows that the CUDA paths run. `tools/first_contact.py` measures their numbers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow
RIG, ROOT = Path(__file__).parent / "fakecuda", Path(__file__).parents[2]

TRAIN = """
import os, sys, time
from dataclasses import replace
from pathlib import Path
import torch
from aiperf.data.opening import open_data
from aiperf.journal.events import BatchReduced
from aiperf.journal.messages import Crashed, TrialDone
from aiperf.train import execution, task
from aiperf.train.loop import train_here
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.rank_context import RankContext
from aiperf.train.setup import prepare
from tests.builders.order import CONF, IMAGES, graph, order

device = torch.device("cuda", 0)

def train(**changes):
    with open_data(IMAGES) as images:
        conf = replace(CONF, **{"compile": "off", **changes})
        return list(train_here(order(last_epoch=1), conf, images, graph(), Path(sys.argv[1]), device))
"""
OVERFLOW = """
torch.use_deterministic_algorithms(True)  # fills new memory with NaN
with open_data(IMAGES) as images:
    context = RankContext.make(replace(CONF, precision="fp16", compile="off"), images, graph(), device, SingleRank(), None)
    ready = prepare(order(), context, epoch=1, batch=8)
    before = {name: each.clone() for name, each in ready.network.named_parameters()}
    for factor in (torch.inf, 1.0):
        ready.exchange.backward(sum(each.square().sum() for each in ready.network.parameters()) * factor)
        ready.exchange.update()
        unchanged = all(torch.equal(each, before[name]) for name, each in ready.network.named_parameters())
        assert unchanged == (factor != 1.0)
    assert all(each.isfinite().all() for each in ready.network.parameters())
"""
REFUSED_CAPTURE = """
words = train(cuda_graphs="on")
assert isinstance(words[-1], Crashed) and not words[-1].retry, words
words = train(cuda_graphs="auto")
assert not words[0].cuda_graphs and isinstance(words[-1], TrialDone), words
"""
FULL_MEMORY = """
real, fails = task.F.cross_entropy, [torch.AcceleratorError("CUDA error: out of memory")]
def cross_entropy(*arguments, **options):
    if fails and torch.is_grad_enabled() and len(arguments[0]) == 64 and steps.append(1) is None and len(steps) == 4:
        raise fails.pop()
    return real(*arguments, **options)
steps = []
task.F.cross_entropy = cross_entropy
words = train()
kinds = [type(word) for word in words if isinstance(word, BatchReduced | TrialDone)]
assert not fails and kinds == [BatchReduced, TrialDone], words
"""
FULL_FOR_CUDNN = """
from aiperf.errors import AiperfError
from aiperf.train.memory_limits import largest_batch
from aiperf.train.precision import Precision
from tests.train.test_device_errors import MEMORY
real, full, text = torch.nn.functional.conv2d, 64, ""
def conv2d(images, *more, **named):
    if len(images) >= full and images.device.type == "cuda":
        raise type(error)(str(error))
    return real(images, *more, **named)
torch.nn.functional.conv2d = conv2d
for error in MEMORY:
    full = 64
    assert largest_batch(graph(), device, Precision("fp32", "cuda"), CONF, 10**12) == 56, error
    full = 1
    try:
        largest_batch(graph(), device, Precision("fp32", "cuda"), CONF, 10**12)
    except AiperfError as refused:
        assert "at batch 8" in str(refused) and str(error) in str(refused), refused
    else:
        raise AssertionError(error)
for error in MEMORY[5:7]:
    full = 64
    words = train()
    assert isinstance(words[0], BatchReduced) and isinstance(words[-1], TrialDone), words
    full = 1
    words = train()
    assert isinstance(words[-1], Crashed) and str(error) in words[-1].reason, words
"""
NO_WAITS = """
counts = []
mark = execution.Execution.eager_if
def looked(self, eager):
    counts.append(torch.cuda.host_copies())
    return mark(self, eager)
execution.Execution.eager_if = looked
with open_data(replace(IMAGES, training_images=1500)) as images:
    conf = replace(CONF, compile="off")
    list(train_here(order(last_epoch=1), conf, images, graph(), Path(sys.argv[1]), device))
assert len(counts) > 10 and counts[-1] == counts[3], counts
"""
SEARCHED = """
from aiperf.train import setup
real, searched = torch.nn.functional.conv2d, set()
def conv2d(images, *more, **named):
    if len(images) == 64 and images.device.type == "cuda":
        searched.add(torch.backends.cudnn.benchmark)
    return real(images, *more, **named)
torch.nn.functional.conv2d = conv2d
words = train()
assert isinstance(words[-1], TrialDone) and searched == {False}, searched
assert torch.backends.cudnn.benchmark_limit == 4
setup.SEARCH_FROM_SECONDS = 0.0
words = train()
assert isinstance(words[-1], TrialDone) and searched == {False, True} and torch.backends.cudnn.benchmark
"""
GPU_DECODER = """
from torchvision import io as torchvision_io
from aiperf.data.dataset_config import ImagenetConf
from tests.builders.data_set import make, picture
real, calls = torchvision_io.decode_jpeg, []
def nvjpeg(files, mode, device):
    calls.append(len(files))
    try:
        return [each.to(device) for each in real(files, mode)]
    except RuntimeError as error:
        raise RuntimeError(f"Error while decoding JPEG images: {error}") from error
torchvision_io.decode_jpeg = nvjpeg
root = make(Path(sys.argv[1]) / "set", training=5, validation=2, height=300, width=400)
picture(300, 400, 0, 9).convert("CMYK").save(root / "train/class0/cmyk.jpg")
picture(300, 400, 0, 8).save(root / "train/class0/other.png")
whole = (root / "train/class1/0.jpg").read_bytes()
(root / "train/class1/cut.jpg").write_bytes(whole[: len(whole) // 2])
(root / "train/class1/no.jpg").write_bytes(whole[:2] + b" not a picture")
def batches(decoder):
    with open_data(ImagenetConf(root=str(root), cache="none", decoder=decoder)) as data:
        walk = dict(rank=0, ranks=1, device=device, channels_last=True, dtype=torch.float32)
        found = [*data.training(7, epoch=0, seed=1, **walk), *data.validation(4, **walk)]
        assert all(each.images.device == each.targets.device == device for each in found)
        return [(each.images.cpu(), each.targets.cpu()) for each in found], sorted(name for name, _ in data.corrupt)
(ours, corrupt), (theirs, theirs_corrupt) = batches("gpu"), batches("cpu")
assert corrupt == theirs_corrupt and len(corrupt) == 2 and max(calls) > 1, (corrupt, theirs_corrupt, calls)
assert len(ours) == len(theirs) == 3
for (images, labels), (theirs_images, theirs_labels) in zip(ours, theirs):
    assert torch.equal(labels, theirs_labels) and (images - theirs_images).abs().mean() < 0.05
"""
NO_CUDA = """
from morphism import encode
from aiperf.errors import AiperfError
from aiperf.train.ranks.group import RankGroup
from aiperf.train.ranks.protocol import Recipe
group = RankGroup(Recipe(CONF, IMAGES, encode(graph()), Path(sys.argv[1]), 1), accelerators=1)
try:
    group.start()
except AiperfError as error:
    assert "needs a torch built for CUDA or ROCm" in str(error), error
else:
    raise AssertionError("it started")
finally:
    group.close()
"""
WRONG_ORDINALS = """
from morphism import encode
from aiperf.train.ranks.group import RankGroup, WorkerEnded
from aiperf.train.ranks.protocol import Recipe
group = RankGroup(Recipe(CONF, IMAGES, encode(graph()), Path(sys.argv[1]), 2), accelerators=2)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
try:
    group.start()
except WorkerEnded as error:
    assert "invalid device ordinal" in str(error) and group._starts <= 3, (error, group._starts)
else:
    raise AssertionError("it started")
finally:
    group.close()
"""


@pytest.fixture(scope="session")
def emulation(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process on one emulated accelerator."""
    if shutil.which("g++") is None or torch.version.cuda is not None:
        pytest.skip("needs g++ and a CPU build of torch")
    folder, torch_folder = tmp_path_factory.mktemp("fakecuda"), Path(torch.__file__).parent
    headers = [f"-I{torch_folder}/include", f"-I{torch_folder}/include/torch/csrc/api/include"]
    libraries = [f"-L{torch_folder}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch_folder}/lib"]
    library, driver = folder / "libfakecuda.so", folder / "libnvidia-ml.so.1"
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w"]
    subprocess.run(["g++", *flags, *headers, RIG / "fakecuda.cpp", "-o", library, *libraries], check=True)
    subprocess.run(
        ["g++", "-x", "c", "-shared", "-fPIC", ROOT / "tests/system/nvml_double.c", "-o", driver], check=True
    )
    return {
        "FAKE_CUDA_LIBRARY": str(library),
        "LD_LIBRARY_PATH": str(folder),
        "NVML_COUNT": "1",
        "PYTHONPATH": os.pathsep.join([str(RIG), str(ROOT)]),
    }


@pytest.mark.parametrize(
    ("code", "more"),
    [
        pytest.param(OVERFLOW, {}, id="a first step that overflows changes no weight"),
        pytest.param(REFUSED_CAPTURE, {}, id="a refused capture is not had"),
        pytest.param(FULL_MEMORY, {}, id="full memory reduces the batch, whatever raises it"),
        pytest.param(FULL_FOR_CUDNN, {}, id="every text of full memory ends search and trial in order"),
        pytest.param(NO_WAITS, {}, id="no step copies and waits"),
        pytest.param(SEARCHED, {}, id="cuDNN searches for long trials only"),
        pytest.param(GPU_DECODER, {}, id="the GPU decodes the images that the CPU does"),
        pytest.param(NO_CUDA, {"FAKE_CUDA_BUILD": ""}, id="a torch without CUDA is named"),
        pytest.param(WRONG_ORDINALS, {}, id="one fault of all devices ends the worker"),
    ],
)
def test_on_an_emulated_device(code: str, more: dict[str, str], emulation: dict[str, str], tmp_path: Path) -> None:
    # the library's threads do not end by themselves
    script = TRAIN + code + "\nsys.stdout.flush(); os._exit(0)\n"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=os.environ | emulation | more, check=True)


def test_a_run_on_an_emulated_device_comes_to_its_report(emulation: dict[str, str], tmp_path: Path) -> None:
    # the largest batch is searched with real steps on the processor: little memory ends the search soon, and FP16 is slow there
    small = ["trainer.memory_limit_bytes=200000000", "trainer.compile=off", "trainer.precision=fp32"]
    words = [*small, "dataset=digits", f"runs={tmp_path}", "name=emulated", "limits.trials=2"]
    limits = ["schedule.duration_seconds=240", "schedule.warmup_seconds=2", "schedule.epochs=[1]"]
    command = [sys.executable, "-m", "aiperf", *words, *limits]
    environment = os.environ | emulation | {"FAKE_CUDA_BYTES": "200000000"}
    said = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)

    (run,) = tmp_path.glob("*emulated")
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    joined = next(event for event in events if event["event"] == "WorkerJoined")
    assert (joined["device"], joined["ranks"]) == ("NVIDIA A100-SXM4-80GB", 1), said.stdout
    assert [event["event"] for event in events].count("TrialFinished") >= 2
    assert not [event for event in events if event["event"] in ("TrialLost", "TrialFailed")]
    assert (run / "report.html").exists()
