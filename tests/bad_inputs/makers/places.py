"""Places that cannot be written or read, and data sets with entries that are no files."""

from __future__ import annotations

import os
from pathlib import Path

_IMAGE = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")


def a_file_called_runs(folder: Path) -> None:
    """A file in the place of the folder of all runs."""
    (folder / "runs").write_text("")


def a_link_loop_called_runs(folder: Path) -> None:
    """It leads back to itself."""
    (folder / "runs").symlink_to("runs")


def a_fifo_called_graph(folder: Path) -> None:
    """FIFOs without a writer: `graph.json`, `rules.yaml` and `form.yaml`."""
    for name in ("graph.json", "rules.yaml", "form.yaml"):
        os.mkfifo(folder / name)


def a_link_called_graph(folder: Path) -> None:
    """Dangling links `graph.json` and `rules.yaml`."""
    for name in ("graph.json", "rules.yaml"):
        (folder / name).symlink_to("nowhere.json")


def _set(folder: Path) -> Path:
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            (folder / "set" / split / name).mkdir(parents=True)
            (folder / "set" / split / name / "one.jpg").write_bytes(_IMAGE)
    return folder / "set"


def a_fifo_among_images(folder: Path) -> None:
    """A FIFO without a writer."""
    os.mkfifo(_set(folder) / "train" / "cat" / "two.jpg")


def a_dangling_image(folder: Path) -> None:
    """A link to a file that was cleared away."""
    (_set(folder) / "val" / "dog" / "two.jpg").symlink_to("/scratch/of/none.jpg")


def an_image_in_a_loop(folder: Path) -> None:
    """A link to itself."""
    (_set(folder) / "train" / "cat" / "two.jpg").symlink_to("two.jpg")


def a_folder_called_like_an_image(folder: Path) -> None:
    """two.jpg is a folder."""
    (_set(folder) / "train" / "cat" / "two.jpg").mkdir()


def a_device_among_images(folder: Path) -> None:
    """A link to one that never ends."""
    (_set(folder) / "train" / "cat" / "two.jpg").symlink_to("/dev/zero")


def a_dangling_class(folder: Path) -> None:
    """A link to a folder that is not mounted."""
    (_set(folder) / "train" / "eel").symlink_to("/scratch/of/none")


def a_fifo_for_a_class(folder: Path) -> None:
    """A FIFO without a writer."""
    os.mkfifo(_set(folder) / "train" / "eel")


def a_class_in_a_loop(folder: Path) -> None:
    """A link to itself."""
    (_set(folder) / "train" / "eel").symlink_to("eel")


def a_fifo_for_a_shard(folder: Path) -> None:
    """A FIFO without a writer."""
    (folder / "set").mkdir()
    for name in ("train-000000.tar", "val-000000.tar"):
        os.mkfifo(folder / "set" / name)
