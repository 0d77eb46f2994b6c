"""Source counts against hand counts, against number types that count themselves, and of the paper's examples."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("clang.cindex", reason="libclang is not installed (pip install 'aiperf-cluster[bops]')")

from aiperf.bops.count import SourceCount, build, combine, count_sources, coverage_of, toolchain
from aiperf.bops.coverage import Coverage
from aiperf.bops.tree import CannotCount, SourceText, Tree, read_tree
from tests.bops.random_programs import source as random_source

HERE = Path(__file__).parent
try:
    TOOLS = toolchain()
except CannotCount as error:
    pytest.skip(str(error), allow_module_level=True)


@dataclass(frozen=True)
class Counted:
    """A program that was built and run once."""

    texts: list[SourceText]
    tree: Tree
    coverage: Coverage

    def of(self, function: str | None = None) -> SourceCount:
        return combine(TOOLS, self.texts, self.tree, self.coverage, function)


def counted(file: Path, folder: Path, *flags: str) -> Counted:
    program, texts = build(TOOLS, [file], flags, folder)
    words = ["-x", "cpp-output" if texts[0].is_c else "c++-cpp-output", *flags]
    return Counted(texts, read_tree(texts, [words]), coverage_of(TOOLS, program, [str(program)], folder, None))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def refused(tmp_path: Path, text: str, name: str = "program.cpp") -> str:
    with pytest.raises(CannotCount) as caught:
        count_sources([written(tmp_path / name, text)], flags=["-std=c++17"] if name.endswith("cpp") else [])
    return str(caught.value)


@pytest.mark.parametrize(("name", "flags", "functions"), [("counted.c", (), 60), ("counted.cpp", ("-std=c++17",), 35)])
@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
def test_functions_have_their_counts_by_hand(
    name: str, flags: tuple[str, ...], functions: int, optimized: str, tmp_path: Path
) -> None:
    run = counted(HERE / name, tmp_path, *flags, optimized)
    by_hand = re.findall(r"// (\S+) (\d+) (\d+)\n", (HERE / name).read_text())
    found = {function: run.of(function) for function, _, _ in by_hand}

    assert len(by_hand) >= functions
    assert {name: (each.bops, each.last_comparisons) for name, each in found.items()} == {
        name: (int(bops), int(last)) for name, bops, last in by_hand
    }


def test_random_programs_equal_numbers_that_count_themselves(tmp_path: Path) -> None:
    programs = 200
    file = written(tmp_path / "random.cpp", random_source(programs, seed=27))
    built = tmp_path / "numbers"
    subprocess.run(
        [TOOLS.clangxx, "-std=c++17", "-w", f'-DNUMBERS="{HERE / "numbers.h"}"', str(file), "-o", str(built)],
        check=True,
    )
    by_numbers = list(map(int, subprocess.run([built], capture_output=True, text=True, check=True).stdout.split()))

    by_source = counted(file, tmp_path, "-std=c++17").of().by_function

    assert [by_source.get(f"f{number}", 0) for number in range(programs)] == by_numbers
    assert sum(by_numbers) > 10_000
