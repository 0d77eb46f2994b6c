"""Source counts against hand counts, against number types that count themselves, and of the paper's examples."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("clang.cindex", reason="libclang is not installed (pip install 'aiperf-cluster[bops]')")

from aiperf.bops import count
from aiperf.bops.count import (
    annotated,
    build,
    combine,
    count_binary,
    count_sources,
    coverage_of,
    toolchain,
)
from aiperf.bops.coverage import Coverage
from aiperf.bops.execute import Failed
from aiperf.bops.result import SourceCount
from aiperf.bops.tree import CannotCount, SourceText, Tree, read_tree
from aiperf.page.terminal import table_lines
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


def test_loop_of_the_paper_has_301_operations(tmp_path: Path) -> None:
    file = written(
        tmp_path / "loop.c",
        "int main(void) { long a[100]; int j;\nfor (j = 0; j < 100; j++) { a[j] = 0; } return 0; }\n",
    )

    found = count_sources([file])

    assert (found.bops, found.last_comparisons, found.bops_paper, found.at_least) == (301, 1, 300, False)
    assert found.by_operation == {"compare": 101, "add": 100, "address": 100}
    assert "for (j = 0" in "\n".join(table_lines(annotated(found)))


@pytest.mark.parametrize(("other", "bops"), [("hello", 24), ("help", 16)])
def test_strcmp_is_counted_by_the_body_of_the_paper(other: str, bops: int, tmp_path: Path) -> None:
    text = f'#include <string.h>\nint main(void) {{ return strcmp("hello", "{other}") == 99; }}\n'

    found = count_sources([written(tmp_path / "compare.c", text)], function="strcmp")

    assert (found.bops, found.library_calls) == (bops, {})


def test_counts_of_ranks_and_files_are_added(tmp_path: Path) -> None:
    header = written(tmp_path / "half.h", "static inline int half(int a) { return a / 2; }\nint more(int a);\n")
    first = written(tmp_path / "one.c", f'#include "{header}"\nint main(void) {{ return half(2) + more(3) - 5; }}\n')
    second = written(tmp_path / "two.c", f'#include "{header}"\nint more(int a) {{ return half(a) * 4; }}\n')
    once = count_sources([first, second])
    launcher = written(tmp_path / "twice", '#!/bin/sh\n"$@" && "$@"\n')
    launcher.chmod(0o755)

    assert once.by_function == {"main": 2, "half": 2, "more": 1}
    assert count_sources([first, second], launch=[str(launcher)]).bops == 2 * once.bops


def test_inline_function_of_two_files_counts_once(tmp_path: Path) -> None:
    header = written(tmp_path / "shared.h", "inline int twice(int a) { return a * 2; }\n")
    first = written(
        tmp_path / "one.cpp", f'#include "{header}"\nint more(int);\nint main() {{ return twice(2) + more(3) > 99; }}\n'
    )
    second = written(tmp_path / "two.cpp", f'#include "{header}"\nint more(int a) {{ return twice(a); }}\n')

    assert count_sources([first, second]).by_function == {"main": 2, "twice": 2}


def test_library_calls_make_the_total_a_lower_bound(tmp_path: Path) -> None:
    text = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 3; i++) free(malloc(8)); return abs(0); }\n"

    found = count_sources([written(tmp_path / "calls.c", text)])

    assert found.at_least
    assert found.library_calls["malloc"] == 3


def test_program_built_elsewhere_has_the_same_count(tmp_path: Path) -> None:
    text = (
        "#define TWO(x) ((x) * 2)\n"
        "int main(void) { int s = 0; for (int i = 0; i < 4; i++) s += TWO(i + 1); return s > 99; }\n"
    )
    file = written(tmp_path / "built.c", text)
    program = tmp_path / "built"
    words = [TOOLS.clang, "-fprofile-instr-generate", "-fcoverage-mapping", "built.c", "-o", "built"]
    subprocess.run(words, cwd=tmp_path, check=True)
    entry = {"directory": str(tmp_path), "file": "built.c", "arguments": words}
    commands = written(tmp_path / "compile_commands.json", json.dumps([entry]))

    assert count_binary(program, commands).by_operation == count_sources([file]).by_operation


FLOPS = {
    "double a = x * 2 + n; return a > 1;": 2,
    "float f = x; f += n; f++; return -f < 0;": 3,
    "int a = n * 3 + x; return a - 1;": 1,  # an int and a double
    "double a[2] = {x, x}; return a[n - 2] / a[0] == 1 && !a[1];": 1,
    "typedef float four __attribute__((vector_size(16))); four v = {1, 2, 3, 4}; v = v * v; return v[0] - 1;": 5,
    "long s = n % 2; for (int i = 0; i < 3; i++) x = x - 1; return s;": 3,
}
"""Statements with the double x and the int n, and their floating-point operations by hand."""


def test_floating_point_operations_equal_counts_by_hand(tmp_path: Path) -> None:
    functions = "\n".join(f"int f{number}(double x, int n) {{ {body} }}" for number, body in enumerate(FLOPS))
    calls = "; ".join(f"f{number}(1.5, 3)" for number in range(len(FLOPS)))
    file = written(tmp_path / "a.c", f"{functions}\nint main(void) {{ {calls}; return 0; }}\n")
    compiled = counted(file, tmp_path)

    assert {body: compiled.of(f"f{number}").flops for number, body in enumerate(FLOPS)} == FLOPS


def test_open_types_of_a_template_leave_its_flops_unknown(tmp_path: Path) -> None:
    text = "template <class T> T twice(T a) { return a * 2; } int main() { return twice(1.5) > 9; }\n"

    found = count_sources([written(tmp_path / "a.cpp", text)])

    assert (found.bops, found.flops) == (2, None)


REFUSED = {
    "failed with status": "int main() { return 1 +; }",
    "inline assembly": 'int main() { asm("nop"); return 0; }',
    "a goto into a loop": "int main() { int i = 0; goto in; while (i < 3) { in: i++; } return 0; }",
    "a case label inside a loop": "int main() { int i = 0; switch (i) { while (i < 3) { case 0: i++; } } return 0; }",
    "initializer of 'g'": "int f(int a) { return a; } int g = f(1) + f(2); int main() { return 0; }",
    "class type 'S'": "struct S { int x; S operator+(S o) { return {x + o.x}; } };\n"
    "template <class T> T add(T a, T b) { return a + b; } int main() { return add(S{0}, S{0}).x; }",
    "complex numbers": "int main() { _Complex double a = 1.0; a = a * a; return 0; }",
    "none for the expression": "int main() { int a = 1; int b = a ?: 2; return b - 1; }",
    "a branch or a lambda": "struct S { int x; S(int a) : x(a ? a + 1 : 2) {} }; int main() { return S(1).x == 9; }",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_construct_without_a_rule_is_refused(reason: str, tmp_path: Path) -> None:
    assert reason in refused(tmp_path, REFUSED[reason])


def test_unknown_function_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(CannotCount, match=r"found 'lop'.*'loop'"):
        count_sources(
            [written(tmp_path / "a.c", "static int loop(void) { return 0; } int main(void) { return loop(); }")],
            function="lop",
        )


def test_failed_program_is_reported_with_its_words(tmp_path: Path) -> None:
    text = '#include <stdio.h>\nint main(void) { fputs("no data", stderr); return 3; }\n'

    with pytest.raises(Failed, match="status 3: no data"):
        count_sources([written(tmp_path / "failing.c", text)])


def test_binary_without_coverage_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.c", "int main(void) { return 0; }")
    subprocess.run([TOOLS.clang, "a.c", "-o", "a"], cwd=tmp_path, check=True)
    commands = written(
        tmp_path / "c.json", json.dumps([{"directory": str(tmp_path), "file": "a.c", "command": "clang a.c"}])
    )

    with pytest.raises(CannotCount, match="wrote no profile"):
        count_binary(tmp_path / "a", commands)


def test_throw_is_reported_as_an_upper_bound(tmp_path: Path) -> None:
    text = "int f(int a) { if (a) throw 1; return a + 1; } int main() { try { return f(1) * 2; } catch (int) { return 0; } }"

    assert "throw" in count_sources([written(tmp_path / "a.cpp", text)]).upper_bounds


def test_missing_clang_names_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(CannotCount, match="apt-get install clang-14"):
        count.toolchain()


def test_any_amount_of_output_is_discarded(tmp_path: Path) -> None:
    text = (
        '#include <stdio.h>\nint main(void) { for (int i = 0; i < 200000; i++) puts("a line of output"); return 0; }\n'
    )

    assert count_sources([written(tmp_path / "loud.c", text)]).library_calls == {"puts": 200_000}
