"""Breaks each rule of docs/benchmark.md once and shows which test sees it.

    python -m tools.break_rules [WORD …]      only rules that contain one of the words
    python -m tools.break_rules --check       only whether every edit still finds its text, once

For each rule the tree is copied to a temporary folder, one edit of the source breaks the rule, and the tests named for it are
run there; a test that fails has seen it. Ends with 1 when a rule was broken and no test failed, when an edit finds its text not
exactly once, or when a named test fails with nothing broken. The table stands in tools/rules_to_break.py.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from tools.rules_to_break import RULES, Rule

TREE = Path(__file__).resolve().parents[1]
COPIED = (
    "aiperf",
    "searchers",
    "morphism",
    "cluster",
    "conf",
    "tests",
    "benchmarks",
    "docs",
    "tools",
    "pyproject.toml",
)
TEST_SECONDS = 300
OTHERS = (
    "hypothesis.strategies",
    "numpy",
    "scipy.linalg",
    "torch",
    "optuna",
    "hydra",
    "omegaconf",
    "msgspec",
    "PIL.Image",
)


def offences(rules: Sequence[Rule], tree: Path = TREE) -> list[str]:
    """Edits that do not apply, and tests that are not there."""
    found = []
    for rule in rules:
        times = (tree / rule.file).read_text(encoding="utf-8").count(rule.before)
        if times != 1:
            found.append(f"{rule.what}: the text to break stands {times} times in {rule.file}: {rule.before!r}")
        for test in rule.tests:
            file, _, name = test.partition("::")
            named = name.partition("[")[0]
            if not (tree / file).is_file() or f"def {named}(" not in (tree / file).read_text(encoding="utf-8"):
                found.append(f"{rule.what}: there is no test {test}")
    return found


def load_what_is_not_broken() -> None:
    """Imports what tests need of others, once: each run of tests is then a fork of this process, and begins at once."""
    assert "aiperf" not in sys.modules, "what is to be broken must not be loaded before it is"
    for name in OTHERS:
        importlib.import_module(name)


def failed(tests: Sequence[str], tree: Path) -> tuple[int, list[str]]:
    """How pytest ended, and which tests failed; minus the signal's number where one ended it (14: it took too long)."""
    with tempfile.NamedTemporaryFile(prefix="break-rules-", suffix=".txt") as said:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            _run(tests, tree, said.fileno())
        _, status = os.waitpid(child, 0)
        text = Path(said.name).read_text(encoding="utf-8")
    return os.waitstatus_to_exitcode(status), re.findall(r"^FAILED (\S+)", text, re.MULTILINE)


def _run(tests: Sequence[str], tree: Path, said: int) -> NoReturn:
    code = 70  # whatever happens here, this process ends here
    try:
        signal.alarm(TEST_SECONDS)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path.insert(0, str(tree))
        plugins = ["-p", "no:cacheprovider", "-p", "tools.without_shrinking"]
        # hypothesis was loaded before pytest could look into it
        quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "--tb=no", "-rf"]
        code = int(pytest.main(["-q", "-x", *plugins, *quiet, *tests]))
        sys.stdout.flush()
    finally:
        os._exit(code)


def broken(rule: Rule, tree: Path) -> tuple[int, list[str]]:
    """The same, with the rule broken."""
    path = tree / rule.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(rule.before, rule.after), encoding="utf-8")
    _forget_compiled(path)
    try:
        return failed(rule.tests, tree)
    finally:
        path.write_text(whole, encoding="utf-8")
        _forget_compiled(path)


def _forget_compiled(path: Path) -> None:
    # an edit of equal length within a second would otherwise go unnoticed
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def main(words: Sequence[str]) -> int:
    """Prints a table as Markdown; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only whether every edit applies")
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args(words)
    rules = [rule for rule in RULES if not asked.words or any(word in rule.what for word in asked.words)]
    if wrong := offences(rules):
        print("\n".join(wrong))
        return 1
    if asked.check:
        return 0
    began = time.monotonic()
    load_what_is_not_broken()
    with tempfile.TemporaryDirectory(prefix="break-rules-") as folder:
        tree = Path(folder)
        for name in COPIED:
            if (TREE / name).is_dir():
                shutil.copytree(TREE / name, tree / name, ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))
            else:
                shutil.copy(TREE / name, tree / name)
        code, which = failed(sorted({test for rule in rules for test in rule.tests}), tree)
        if code:
            print(f"with nothing broken pytest ends with {code}: {', '.join(which)}")
            return 1
        survivors = _table(rules, tree)
    print(f"\n{len(rules)} rules broken, {len(rules) - survivors} seen, in {time.monotonic() - began:.0f} s")
    return 1 if survivors else 0


def _table(rules: Sequence[Rule], tree: Path) -> int:
    """How many rules were broken and not seen."""
    survivors = 0
    print("| rule | broken by | seen by |\n| --- | --- | --- |")
    for rule in rules:
        code, which = broken(rule, tree)
        # 1: tests failed. Anything else is a program that does not run, and no rule that was seen to be broken.
        seen = which[0] if code == 1 and which else f"NOT SEEN (pytest ended with {code})"
        survivors += not (code == 1 and which)
        print(f"| {rule.what} | `{rule.edit}` | {seen} |", flush=True)
    return survivors


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
