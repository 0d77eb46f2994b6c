"""That every rule of docs/benchmark.md has a test which fails when it is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.break_rules import COPIED, TREE, offences
from tools.rules_to_break import RULES, Rule


def test_every_edit_that_breaks_a_rule_finds_its_text_once_and_every_test_that_must_see_it_is_there() -> None:
    assert offences(RULES) == []


def test_no_rule_is_named_twice() -> None:
    assert len({rule.what for rule in RULES}) == len(RULES)


def test_an_edit_that_no_longer_applies_and_a_test_that_is_gone_are_named(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("limit = 6\nother = 6\n")
    (tmp_path / "test_code.py").write_text("def test_a() -> None: ...\n")
    twice = Rule("six", "code.py", "= 6", "= 7", ("test_code.py::test_b[x]",))

    found = offences([twice], tmp_path)

    assert found == [
        "six: the text to break stands 2 times in code.py: '= 6'",
        "six: there is no test test_code.py::test_b[x]",
    ]


def of_the_command_line(*words: str) -> tuple[int, str]:
    """In a process of its own: what is to be broken is loaded in this one."""
    ran = subprocess.run([sys.executable, *words], cwd=TREE, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def test_a_program_that_does_not_run_has_seen_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_code.py").write_text("import nowhere_at_all\n\ndef test_a() -> None: ...\n")
    code = (
        "from pathlib import Path; from tools.break_rules import failed; "
        f"print(failed(['test_code.py'], Path({str(tmp_path)!r})))"
    )

    assert of_the_command_line("-c", code) == (0, "(2, [])\n")


@pytest.mark.slow
def test_one_rule_broken_is_seen_from_the_command_line() -> None:
    code, told = of_the_command_line("-m", "tools.break_rules", "patience: 20 at most")

    assert code == 0, told
    assert "1 rules broken, 1 seen" in told
    assert all((TREE / name).exists() for name in COPIED)


@pytest.mark.slow
def test_every_rule_that_is_broken_is_seen_by_a_test_named_for_it() -> None:
    code, told = of_the_command_line("-m", "tools.break_rules")

    assert code == 0, told
    assert re.search(rf"{len(RULES)} rules broken, {len(RULES)} seen", told)
