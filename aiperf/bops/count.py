"""Source count of basic operations (BOPs): operations of each expression × its executions, by clang's source-based coverage."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aiperf.bops.coverage import BranchesInMacro, Coverage, records_of
from aiperf.bops.execute import execute
from aiperf.bops.result import LineCount, SourceCount
from aiperf.bops.rules import ARITHMETIC, COMPARE, INCREMENT
from aiperf.bops.tree import LARGEST, CannotCount, Operator, SourceText, Spot, Tree, read_tree
from aiperf.given_file import read_json
from aiperf.mistyped import split
from aiperf.nearest import nearest
from aiperf.page.section import Table, numbers, table, texts
from aiperf.programs import ProgramFailed, ask
from aiperf.units import count, share

LIBRARY = Path(__file__).parent / "native" / "library.h"
COVERAGE_FLAGS = ("-fprofile-instr-generate", "-fcoverage-mapping", "-fprofile-update=atomic")
LEAST_CLANG, LATEST_CLANG = 14, 21
_TOOL_SECONDS = 600.0
_LARGEST_TREE = 4 << 30
"""Bytes of a syntax tree as JSON. Standard headers of C++ give some hundred MB."""
PACKAGES = "clang-14 llvm-14 libclang-rt-14-dev"


@dataclass(frozen=True, slots=True)
class Toolchain:
    clang: str
    clangxx: str
    profdata: str
    cov: str
    demangler: str
    version: str


def toolchain() -> Toolchain:
    """Find clang with its coverage tools on the PATH, and return their paths: those without a number, else the newest release.

    Raises:
        CannotCount: clang 14 or later with llvm-profdata, llvm-cov and llvm-cxxfilt is not installed.
    """
    for suffix in ("", *(f"-{number}" for number in range(LATEST_CLANG, LEAST_CLANG - 1, -1))):
        clang = shutil.which(f"clang{suffix}")
        if clang is None:
            continue
        version = _output([clang, "--version"]).splitlines()[0]
        major = re.search(r"version (\d+)", version)
        number = int(major[1]) if major else 0
        paths = [
            next(filter(None, (shutil.which(f"{name}-{number}"), shutil.which(f"{name}{suffix}"))), None)
            for name in ("clang++", "llvm-profdata", "llvm-cov", "llvm-cxxfilt")
        ]
        if number >= LEAST_CLANG and None not in paths:
            return Toolchain(clang, str(paths[0]), str(paths[1]), str(paths[2]), str(paths[3]), version)
    raise CannotCount(
        f"clang, llvm-profdata and llvm-cov of version {LEAST_CLANG} or later are not installed. A source count needs them "
        f"(Debian: apt-get install {PACKAGES})"
    )


def build(tools: Toolchain, files: Sequence[Path], flags: Sequence[str], folder: Path) -> tuple[Path, list[SourceText]]:
    texts = []
    for number, file in enumerate(files):
        if not file.is_file():
            raise CannotCount(f"{str(file)!r} is no file of C or C++. Correct the name")
        is_c = file.suffix == ".c"
        preprocessed = folder / f"{number}-{file.stem}{'.i' if is_c else '.ii'}"
        compiler = tools.clang if is_c else tools.clangxx
        _output([compiler, "-E", *flags, "-include", str(LIBRARY), str(file), "-o", str(preprocessed)])
        texts.append(SourceText(preprocessed, is_preprocessed=True))
    program = folder / "program"
    driver = tools.clang if all(text.is_c for text in texts) else tools.clangxx
    sources = [text.path for text in texts]
    _output([driver, *COVERAGE_FLAGS, "-Wno-everything", *sources, *flags, "-o", str(program)])
    return program, texts


def coverage_of(tools: Toolchain, program: Path, command: Sequence[str], folder: Path, source: Path | None) -> Coverage:
    profiles = folder / "profiles"
    profiles.mkdir()
    execute(command, environment={"LLVM_PROFILE_FILE": str(profiles / "%p-%m.profraw")}, source=source)
    raw = sorted(map(str, profiles.iterdir()))
    if not raw:
        raise CannotCount(
            f"a counted program is built with {' '.join(COVERAGE_FLAGS)} and ends through exit, but {str(program)!r} wrote "
            "no profile: build it so, or pass its sources to `bops count`"
        )
    merged = folder / "program.profdata"
    _output([tools.profdata, "merge", "-o", str(merged), *raw])
    exported = _output([tools.cov, "export", str(program), f"-instr-profile={merged}"])
    return Coverage(records_of(json.loads(exported)))


def count_sources(
    files: Sequence[Path],
    *,
    flags: Sequence[str] = (),
    arguments: Sequence[str] = (),
    launch: Sequence[str] = (),
    function: str | None = None,
    source: Path | None = None,
) -> SourceCount:
    """Compile source files with coverage counters, run the program once, and return its executed basic operations (BOPs)."""
    tools = toolchain()
    with tempfile.TemporaryDirectory(prefix="aiperf-bops-") as name:
        folder = Path(name)
        program, texts = build(tools, files, flags, folder)
        standard = [word for word in flags if word.startswith(("-std=", "-m", "-f"))]
        words = [["-x", "cpp-output" if each.is_c else "c++-cpp-output", *standard] for each in texts]
        tree = read_tree(texts, words)
        coverage = coverage_of(tools, program, [*launch, str(program), *arguments], folder, source)
    return combine(tools, texts, tree, coverage, function)


def count_binary(
    program: Path,
    commands: Path,
    *,
    arguments: Sequence[str] = (),
    launch: Sequence[str] = (),
    function: str | None = None,
    source: Path | None = None,
) -> SourceCount:
    """Run a program once that was built elsewhere with coverage counters, and return its executed basic operations (BOPs)."""
    rule = "--commands is the compile_commands.json of a build tool"
    entries = read_json(
        commands, rule, list[_Command], "let the build tool write it", error=CannotCount, largest=LARGEST
    )
    units = [(Path(each.directory), Path(each.file), each.words) for each in entries]
    tools = toolchain()
    texts, arguments_by_file = [], []
    resources = _output([tools.clang, "-print-resource-dir"]).strip()
    for folder, file, words in units:
        texts.append(SourceText((folder / file).resolve(), is_preprocessed=False))
        kept = [word for word in words[1:] if word not in ("-c", str(file)) and not word.endswith(".o")]
        arguments_by_file.append([*kept, f"-working-directory={folder}", "-resource-dir", resources])
    tree = read_tree(texts, arguments_by_file)
    calls = {call.name for call in tree.calls} & {"pthread_create", "thrd_create", "thread", "std::thread"}
    if calls and not all("-fprofile-update=atomic" in words for _, _, words in units):
        raise CannotCount(
            f"threads are counted with -fprofile-update=atomic, but found {calls.pop()!r} in a program without it: add the flag"
        )
    with tempfile.TemporaryDirectory(prefix="aiperf-bops-") as name:
        coverage = coverage_of(tools, program, [*launch, str(program), *arguments], Path(name), source)
    unread = coverage.executed_files() - {text.path for text in texts}
    if unread:
        raise CannotCount(
            f"a program counted with --commands has its functions in the listed files, but found some in {unread.pop()!r}: "
            "let `bops count FILE…` build the program"
        )
    return combine(tools, texts, tree, coverage, function)


class _Command(msgspec.Struct, frozen=True):
    directory: str
    file: str
    arguments: list[str] | None = None
    command: str = ""

    def __post_init__(self) -> None:
        if not self.words:  # ValueError also for a quotation without its end
            raise ValueError("neither arguments nor command")

    @property
    def words(self) -> list[str]:
        return (
            split("each command of compile_commands.json", self.command) if self.arguments is None else self.arguments
        )


def combine(
    tools: Toolchain, texts: Sequence[SourceText], tree: Tree, coverage: Coverage, function: str | None
) -> SourceCount:
    """Return the executed basic operations (BOPs) of a run: each operator of the sources times the number of its executions."""
    if function is not None and not any(_is_named(each, function) for each in tree.functions):
        raise CannotCount(
            f"--function names a function of the counted sources, but found {function!r}{nearest(function, tree.functions)}: "
            "correct the name"
        )
    by_path = {text.path: text for text in texts}
    counted = _Sums(by_path, coverage)
    flops, has_open_types = 0, False
    _refuse_classes(tools, tree.operators, coverage, by_path)
    for operator in tree.operators:
        if function is None or _is_named(operator.spot.function, function):
            assert operator.rule.operation is not None
            executions = counted.executions(operator.spot)
            counted.add(operator.spot, operator.rule.operation, operator.count, executions)
            if operator.rule.operation in ARITHMETIC:
                flops += operator.count * executions * operator.is_floating
                has_open_types |= operator.is_dependent and executions > 0
    last = 0
    for loop in tree.loops:
        if function is not None and not _is_named(loop.body.function, function):
            continue
        passes = counted.executions(loop.body)
        if loop.is_range:
            line, column = loop.condition.place
            leavings = coverage.false_branches(loop.body.file, (line, column), (line, column + 1))
            assert COMPARE.operation and INCREMENT.operation
            counted.add(loop.condition, COMPARE.operation, 1, passes + leavings)
            counted.add(loop.condition, INCREMENT.operation, 1, passes)
        else:
            leavings = counted.executions(loop.condition) - passes
        last += leavings
    library = _library_calls(tree, coverage, counted)
    bops = sum(counted.by_operation.values())
    lines = (
        LineCount(file, line, counted.line_executions[file, line], number)
        for (file, line), number in counted.by_line.items()
        if number
    )
    return SourceCount(
        bops=bops,
        last_comparisons=last,
        bops_paper=bops - last,
        at_least=bool(library),
        upper_bounds=dict(sorted(tree.upper_bounds.items())),
        by_operation={name: number for name, number in counted.by_operation.most_common() if number},
        by_function={name: number for name, number in counted.by_function.most_common() if number},
        by_line=tuple(sorted(lines, key=lambda each: (-each.bops, each.file, each.line))),
        library_calls=library,
        compiler=tools.version,
        flops=None if has_open_types else flops,
    )


class _Sums:
    def __init__(self, texts: Mapping[str, SourceText], coverage: Coverage) -> None:
        self._texts, self._coverage = texts, coverage
        self.by_operation: Counter[str] = Counter()
        self.by_function: Counter[str] = Counter()
        self.by_line: Counter[tuple[str, int]] = Counter()
        self.line_executions: defaultdict[tuple[str, int], int] = defaultdict(int)

    def executions(self, spot: Spot) -> int:
        """Return the executions of a place. A function without a record was never built, so it was not executed."""
        try:
            counted = self._coverage.executions(spot.file, spot.place, spot.guard)
        except BranchesInMacro:
            raise CannotCount(
                f"a macro of a program that was built elsewhere has no branches, but found some at {self._shown(spot)}: "
                "let `bops count FILE…` build the program"
            ) from None
        if counted is None and (not spot.function or self._coverage.records(spot.file, spot.place)):
            raise CannotCount(
                f"an operator is inside a function that clang counts, but found one outside at {self._shown(spot)}: assign the "
                "value in a function"
            )
        return counted or 0

    def _shown(self, spot: Spot) -> str:
        file, line, _ = self._texts[spot.file].origin(spot.place[0])
        return f"{file}:{line}"

    def add(self, spot: Spot, operation: str, count: int, executions: int) -> None:
        file, line, _ = self._texts[spot.file].origin(spot.place[0])
        number = count * executions
        self.by_operation[operation] += number
        self.by_function[spot.function.removeprefix("bops_")] += number
        self.by_line[file, line] += number
        self.line_executions[file, line] = max(executions, self.line_executions[file, line])


def _is_named(function: str, wanted: str) -> bool:
    return function.removeprefix("bops_") == wanted or function.endswith(f"::{wanted}")


def _library_calls(tree: Tree, coverage: Coverage, counted: _Sums) -> dict[str, int | None]:
    names = {function.rpartition("::")[2] for function in tree.functions} | coverage.names
    calls: Counter[str] = Counter()
    for call in tree.calls:
        if call.name not in names:
            calls[call.name] += counted.executions(call.spot)
    made: dict[str, int | None] = {name: number for name, number in calls.most_common() if number}
    passed = sorted(name for name in tree.passed if name not in names)
    return {**dict.fromkeys(passed), **made}


_PLAIN = {
    *("const", "volatile", "unsigned", "signed", "bool", "char", "short", "int", "long", "float", "double", "__int128"),
    *("wchar_t", "char8_t", "char16_t", "char32_t", "true", "false"),
}


def _refuse_classes(
    tools: Toolchain, operators: Iterable[Operator], coverage: Coverage, texts: Mapping[str, SourceText]
) -> None:
    """Refuse operators of templates that were used with class types: the tree leaves open if they are overloaded."""
    instantiations: dict[str, Operator] = {}
    for operator in operators:
        if operator.is_dependent:
            for record in coverage.records(operator.spot.file, operator.spot.place):
                if record.regions[0].count:
                    instantiations.setdefault(record.name.rpartition(":")[2], operator)
    if not instantiations:
        return
    names = _output([tools.demangler, *instantiations]).splitlines()
    for name, operator in zip(names, instantiations.values(), strict=True):
        bare = re.sub(r"operator(<=>|<<=?|>>=?|<=?|>=?|->)", "operator", name)
        for argument in re.findall(r"[<,]\s*([^<>,]+?)\s*(?=[<>,])", bare):
            words = re.sub(r"[&\s]+", " ", argument).split()
            if argument.endswith("*") or re.fullmatch(r"(\(.*\))?-?\d+[ul]*", argument) or set(words) <= _PLAIN:
                continue
            file, line, _ = texts[operator.spot.file].origin(operator.spot.place[0])
            raise CannotCount(
                f"a counted template uses arithmetic types, but found the class type {argument!r} ({name}, {file}:{line}): "
                "count a function without a template, or use an arithmetic type"
            )


def _output(command: Sequence[str]) -> str:
    try:
        ended = ask(command, seconds=_TOOL_SECONDS, largest=_LARGEST_TREE)
    except ProgramFailed as error:
        raise CannotCount(str(error)) from error
    if ended.status:
        raise CannotCount(
            f"{Path(command[0]).name} failed with status {ended.status}: {ended.errors.strip()[:600]!r}. "
            "Correct the source or --flags"
        )
    return ended.output


def annotated(counted: SourceCount) -> Table:
    """Return the source lines with their executions and BOPs, the line with most BOPs first. A missing file has no text."""
    lines = {
        file: Path(file).read_text(errors="replace").splitlines() if Path(file).is_file() else []
        for file in {each.file for each in counted.by_line}
    }
    columns = (
        numbers("executions", [each.executions for each in counted.by_line], count),
        numbers("BOPs", [each.bops for each in counted.by_line], count),
        numbers("share", [each.bops / max(counted.bops, 1) for each in counted.by_line], share),
        texts("line", [f"{Path(each.file).name}:{each.line}" for each in counted.by_line]),
        texts("", ["".join(lines[each.file][each.line - 1 : each.line]).strip() for each in counted.by_line]),
    )
    return table("lines", "", columns)
