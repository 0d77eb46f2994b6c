"""Files that options name."""

from __future__ import annotations

from pathlib import Path


def a_text_file(folder: Path) -> None:
    """`notes.txt`, which is no graph, no form, no list of hosts."""
    (folder / "notes.txt").write_text("buy: milk\nand bread\n")


def a_folder_named_graph(folder: Path) -> None:
    """`graph.json` is a folder."""
    (folder / "graph.json").mkdir()


def a_graph_of_another_program(folder: Path) -> None:
    """`graph.json` holds JSON that is no network."""
    (folder / "graph.json").write_text('{"layers": [1, 2, 3]}')
