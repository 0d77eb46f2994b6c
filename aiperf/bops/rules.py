"""Counting rules: number of basic operations (BOPs) of each construct of C and C++, with the reference for it.

[P]: printed in Tables 5 and 6 of the paper. [D]: decided here, because the paper leaves it open (docs/bops.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operation = Literal[
    "add", "subtract", "multiply", "divide", "remainder", "bitwise", "logic", "compare", "address", "negate"
]


ARITHMETIC: frozenset[Operation] = frozenset(("add", "subtract", "multiply", "divide", "negate"))
"""Operations that are FLOPs for floating-point operands."""


@dataclass(frozen=True, slots=True)
class CountingRule:
    """Counting rule of one construct of C or C++: its class and number of basic operations, and the reference for it."""

    construct: str
    operation: Operation | None
    """Class of the operation. None if the construct is not counted."""
    count: int
    source: str


_TABLE_5 = "[P] Table 5"
_TABLE_6 = "[P] Table 6"
_DECIDED = "[D]"
_ASSIGNMENT = CountingRule("assignment", None, 0, _TABLE_6)
_NOT_ARITHMETIC = CountingRule("*p, members, &, ?:, comma, unary plus", None, 0, _DECIDED)
_ADD = CountingRule("+", "add", 1, _TABLE_5)
_SUBTRACT = CountingRule("−", "subtract", 1, _TABLE_5)
_MULTIPLY = CountingRule("×", "multiply", 1, _TABLE_5)
_DIVIDE = CountingRule("÷", "divide", 1, _TABLE_5)
_REMAINDER = CountingRule("remainder", "remainder", 1, _DECIDED)
_BITWISE = CountingRule("bitwise operation, including shifts", "bitwise", 1, _TABLE_5)
_LOGIC = CountingRule("logic operation", "logic", 1, _TABLE_5)
COMPARE = CountingRule("comparison", "compare", 1, _TABLE_5)
ADDRESS = CountingRule("addressing in one dimension (N dimensions: N), also under &", "address", 1, _TABLE_5)
INCREMENT = CountingRule("++", "add", 1, _DECIDED)
_DECREMENT = CountingRule("−−", "subtract", 1, _DECIDED)
_NEGATE = CountingRule("unary minus (on a literal: 0)", "negate", 1, _DECIDED)

_ARITHMETIC = (_MULTIPLY, _DIVIDE, _REMAINDER, _ADD, _SUBTRACT, _BITWISE, _BITWISE)
BINARY: dict[int, CountingRule] = {
    1: _NOT_ARITHMETIC,
    2: _NOT_ARITHMETIC,
    **dict(enumerate(_ARITHMETIC, start=3)),
    **dict.fromkeys(range(10, 17), COMPARE),
    **dict.fromkeys((17, 18, 19), _BITWISE),
    **dict.fromkeys((20, 21), _LOGIC),
    22: _ASSIGNMENT,
    **dict(enumerate((*_ARITHMETIC, _BITWISE, _BITWISE, _BITWISE), start=23)),
    33: _NOT_ARITHMETIC,
}
"""Rule by binary operator, numbered as in clang's `CXBinaryOperatorKind`. `a += b` has the rule of +."""

UNARY: dict[int, CountingRule] = {
    1: INCREMENT,
    2: _DECREMENT,
    3: INCREMENT,
    4: _DECREMENT,
    5: _NOT_ARITHMETIC,
    6: _NOT_ARITHMETIC,
    7: _NOT_ARITHMETIC,
    8: _NEGATE,
    9: _BITWISE,
    10: _LOGIC,
    13: _NOT_ARITHMETIC,
}
"""Rule by unary operator, numbered as in clang's `CXUnaryOperatorKind`: ++ and −− after and before, & * + − ~ !."""

OTHERS: tuple[CountingRule, ...] = (
    CountingRule("declaration, conversion, branch, loop, call, return, switch", None, 0, _TABLE_6),
    CountingRule("operators of literals alone, operand of sizeof", None, 0, _DECIDED),
    CountingRule("range-for: a comparison and an increment per pass", "compare", 2, _DECIDED),
    CountingRule("overloaded operator: its body", None, 0, _DECIDED),
    CountingRule("vector type: one operation per lane", None, 0, _DECIDED),
    CountingRule(
        "strcmp, strncmp, strlen, memcpy, memset, memcmp: the bodies of library.h", None, 0, "[P] section 4.2.1"
    ),
)
"""Rules that follow from the tree and not from an operator."""


def table() -> tuple[CountingRule, ...]:
    """Return all counting rules, each once: binary operators in clang's order, addressing, unary operators, and others."""
    return tuple(dict.fromkeys((*BINARY.values(), ADDRESS, *UNARY.values(), *OTHERS)))
