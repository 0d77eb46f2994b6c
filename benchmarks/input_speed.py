"""Images per second from a folder of JPEG files in a first, uncached pass: AIPerf's input ÷ torchvision's, on equal cores.

    python -m benchmarks.input_speed FOLDER            with FOLDER/train/CLASS/*.JPEG

Both sides return shuffled float32 batches after a random resized crop to 224×224, a flip and normalization. Both use the same
cores, and the page cache is dropped before each pass. torchvision's side follows its training reference: ImageFolder,
transforms and a DataLoader with one worker process per core.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torchvision import datasets, transforms

from aiperf.data.dataset_config import ImagenetConf
from aiperf.data.description import IMAGENET_MEAN, IMAGENET_STD
from aiperf.data.files.samples import list_folder
from aiperf.data.opening import open_data
from aiperf.statistics.interleaved import interleaved
from benchmarks.pairs import describe_machine

GOAL = 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds train/CLASS/*.JPEG")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores for each side (all)")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of passes (10)")
    parser.add_argument(
        "--images", type=int, default=1000, help="images a pass; small folders are walked repeatedly (1000)"
    )
    parser.add_argument("--batch", type=int, default=50, help="images a batch (50)")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: arguments.cores]
    if len(cores) < arguments.cores:
        parser.error(f"--cores {arguments.cores}: this process may run on {len(cores)}")
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(arguments.cores)
    with tempfile.TemporaryDirectory() as scratch:
        root = repeated(arguments.folder, Path(scratch), arguments.images)
        paths = tuple(list_folder(root, "train").paths)
        theirs = by_torchvision(root, arguments.cores, arguments.batch)
        ours = by_aiperf(root, arguments.cores, arguments.batch)

        def timed(walk: Callable[[], int]) -> float:
            forget(paths)
            began = time.perf_counter()
            images = walk()
            taken = time.perf_counter() - began
            assert images == len(paths), (images, len(paths))
            return taken / images

        ratio = interleaved(lambda: timed(theirs), lambda: timed(ours), arguments.pairs)
    print(describe_machine())
    print(
        f"{len(paths)} images a pass of {arguments.folder}, {arguments.cores} cores, batch {arguments.batch}, first pass, "
        "nothing cached"
    )
    for name, seconds in (("torchvision", ratio.a), ("aiperf", ratio.b)):
        rates = sorted(1 / each / arguments.cores for each in seconds)
        print(f"{name:12s} {rates[len(rates) // 2]:8.0f} images/s per core ({rates[0]:.0f}–{rates[-1]:.0f})")
    print(f"aiperf ÷ torchvision: {ratio}; goal ≥ {GOAL}: {'reached' if ratio.median >= GOAL else 'missed'}")
    return 0


def repeated(folder: Path, scratch: Path, images: int) -> Path:
    """Return a root whose train/ repeats each class folder by links to reach `images` images. val/ has the same images."""
    classes = sorted(path for path in (folder.resolve() / "train").iterdir() if path.is_dir())
    held = sum(1 for path in classes for _ in path.iterdir())
    if not held:
        sys.exit(f"no images in {folder}/train/CLASS/")
    (scratch / "train").mkdir()
    for turn in range(max(1, round(images / held))):
        for path in classes:
            (scratch / "train" / f"{turn:03d}-{path.name}").symlink_to(path)
    (scratch / "val").symlink_to(scratch / "train")
    return scratch


def forget(paths: tuple[Path, ...]) -> None:
    """Drop the files from the page cache (Linux, no privileges needed for clean pages)."""
    for path in {path.resolve() for path in paths}:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def by_torchvision(root: Path, cores: int, batch: int) -> Callable[[], int]:
    """Return one shuffled pass of torchvision's reference input, including the start of its worker processes."""
    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
            transforms.ConvertImageDtype(torch.float32),
            transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        ]
    )
    folder = datasets.ImageFolder(str(root / "train"), transform)
    loader = torch.utils.data.DataLoader(folder, batch, shuffle=True, num_workers=cores)

    return lambda: sum(len(images) for images, _ in loader)


def by_aiperf(root: Path, cores: int, batch: int) -> Callable[[], int]:
    """Return one shuffled pass of AIPerf's input, including its opening."""
    conf = ImagenetConf(root=str(root), cache="none", workers=cores)

    def walk() -> int:
        with open_data(conf) as data:
            batches = data.training(
                batch,
                rank=0,
                ranks=1,
                epoch=0,
                seed=0,
                device=torch.device("cpu"),
                channels_last=False,
                dtype=torch.float32,
            )
            return sum(each.count for each in batches)

    return walk


if __name__ == "__main__":
    sys.exit(main())
