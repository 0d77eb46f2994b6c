"""Output of HPL, read strictly."""

from __future__ import annotations

import pytest

from aiperf.errors import BadConfiguration
from aiperf.hpl.output import parsed

RESULT = "WR01C2C4        4000   192     1     2               2.39              1.783e+01"
TIMERS = """--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV-
Max aggregated wall time rfact . . . :               0.10
+ Max aggregated wall time pfact . . :               0.05
+ Max aggregated wall time mxswp . . :               0.03
Max aggregated wall time update  . . :               1.73
+ Max aggregated wall time laswp . . :               0.20
Max aggregated wall time up tr sv  . :               0.04
--------------------------------------------------------------------------------"""
CHECK = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0024940 ...... PASSED"
END = "End of Tests."


def text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_result_with_its_parts() -> None:
    (run,) = parsed(text("HPLinpack 2.0", RESULT, TIMERS, CHECK, END), "HPL.out").runs

    assert (run.n, run.nb, run.p, run.q, run.pmap, run.seconds, run.gflops) == (4000, 192, 1, 2, "row", 2.39, 17.83)
    assert run.parts == pytest.approx({"panel": 0.07, "update": 1.53, "pivot": 0.03, "swap": 0.2, "broadcast": 0.56})
    assert sum((run.parts or {}).values()) == pytest.approx(run.seconds)


def test_result_without_timers_has_no_parts() -> None:
    (run,) = parsed(text(RESULT.replace("WR", "WC"), CHECK, END), "HPL.out").runs

    assert run.parts is None
    assert run.pmap == "column"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (text(RESULT, CHECK), "'HPL.out' is cut short"),
        (text(RESULT), "has none for N 4000: the output is cut short"),
        (text(RESULT, RESULT, CHECK, END), "has none for N 4000"),
        (text(RESULT, CHECK.replace("PASSED", "FAILED"), END), r"FAILED in line 2 \(N 4000\)"),
        (text(RESULT.replace("1.783e+01", "1.983e+01"), CHECK, END), "has 19.83 for N 4000 and 2.39 s, which give"),
        (text("hello", END), "'HPL.out' has none: check HPL.dat"),
        ("", "is cut short"),
    ],
)
def test_output_without_a_valid_figure(output: str, words: str) -> None:
    with pytest.raises(BadConfiguration, match=words):
        parsed(output, "HPL.out")
