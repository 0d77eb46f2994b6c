"""Random functions of a small grammar, in C++ that compiles with plain numbers and with numbers that count their operators."""

from __future__ import annotations

import random

HEAD = """
#ifdef NUMBERS
#include NUMBERS
#else
using Unsigned = unsigned long;
template <class T, int N> using Array = T[N];
#define ENTER(number)
#define LOGIC(value) (value)
#endif
#define SMALL(x) ((x) & 7)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
static Unsigned sink;
"""
BINARY = ("+", "-", "*", "&", "|", "^")
COMPARE = ("<", "<=", ">", ">=", "==", "!=")


class Program:
    """One random function. `depth` limits loops, since a loop multiplies the operations."""

    def __init__(self, number: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = number
        self._fresh = 0

    def text(self) -> str:
        body = self._block(3, in_loop=False)
        return (
            f"static Unsigned f{self._number}(Unsigned a, Unsigned b) {{ ENTER({self._number});\n"
            f"Array<Unsigned, 8> row = {{}}; Array<Array<Unsigned, 8>, 8> square = {{}}; {body}\nsink = row[0]; return a; }}\n"
        )

    def _value(self, depth: int) -> str:
        pick = self._random.randrange(11 if depth else 3)
        one = self._random.choice("ab")
        if pick == 0:
            return str(self._random.randrange(9))
        if pick < 3:
            return one
        if pick < 6:
            return f"({self._value(depth - 1)} {self._random.choice(BINARY)} {self._value(depth - 1)})"
        if pick == 6:
            return f"({self._value(depth - 1)} {self._random.choice('/%')} ({self._value(depth - 1)} | 1))"
        if pick == 7:
            return f"row[SMALL({self._value(depth - 1)})]"
        if pick == 8:
            return f"square[{self._random.randrange(8)}][SMALL({self._value(depth - 1)})]"
        if pick == 9:
            return f"({self._condition(depth - 1)} ? Unsigned({self._value(depth - 1)}) : Unsigned({self._value(depth - 1)}))"
        return self._random.choice((f"{one}++", f"--{one}", f"-{one}", f"(~{one} >> 3)", f"LARGER({one}, a + 1)"))

    def _condition(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.3:
            sign = self._random.choice(("&&", "||"))
            return f"(LOGIC({self._condition(depth - 1)}) {sign} {self._condition(depth - 1)})"
        if self._random.random() < 0.1:
            return f"!{self._random.choice('ab')}"
        return f"({self._value(max(depth - 1, 0))} {self._random.choice(COMPARE)} {self._value(max(depth - 1, 0))})"

    def _block(self, depth: int, *, in_loop: bool) -> str:
        return "{ " + " ".join(self._statement(depth, in_loop) for _ in range(self._random.randrange(1, 5))) + " }"

    def _statement(self, depth: int, in_loop: bool) -> str:
        pick = self._random.randrange(13 if depth else 4)
        one = self._random.choice("ab")
        if pick < 2:
            return f"{one} = {self._value(2)};"
        if pick == 2:
            return f"{one} {self._random.choice(BINARY)}= {self._value(2)};"
        if pick == 3:
            return f"row[SMALL({self._value(1)})] {self._random.choice(('=', '+=', '^='))} {self._value(2)};"
        if pick < 6:
            other = f" else {self._block(depth - 1, in_loop=in_loop)}" if self._random.random() < 0.5 else ""
            return f"if ({self._condition(2)}) {self._block(depth - 1, in_loop=in_loop)}{other}"
        if pick == 6 and in_loop:
            return f"if ({self._condition(1)}) {self._random.choice(('break', 'continue'))};"
        if pick == 7:
            return f"if ({self._condition(1)}) return {one};"
        if pick == 8:
            cases = "".join(
                f"case {number}: {self._statement(depth - 1, False)} {self._random.choice(('break;', ''))} "
                for number in range(3)
            )
            return (
                f"switch ((unsigned long)(SMALL({self._value(1)}))) {{ {cases} default: {self._statement(0, False)} }}"
            )
        self._fresh += 1
        name = f"i{self._fresh}"
        times = self._random.randrange(5)
        body = self._block(depth - 1, in_loop=True)
        if pick == 9:
            return f"{{ Unsigned {name} = 0; while ({name}++ < {times}) {body} }}"
        if pick == 10:
            return f"{{ Unsigned {name} = 0; do {body} while (++{name} < {times}); }}"
        if pick == 11:
            return f"for (Unsigned {name} = 0; LOGIC({name} < {times}) && {self._condition(1)}; {name} += 1) {body}"
        return f"for (Unsigned {name} = 0; {name} < {times}; ++{name}) {body}"


def source(programs: int, seed: int) -> str:
    """Return a program that calls every function. With NUMBERS it prints one count per function."""
    functions = "".join(Program(number, seed + number).text() for number in range(programs))
    calls = "\n".join(f"sink = sink + f{number}({number % 7}, {number % 5});" for number in range(programs))
    counts = f'for (int i = 0; i < {programs}; i++) std::printf("%llu\\n", counted_by_function[i]);'
    printed = f"\n#ifdef NUMBERS\n{counts}\n#endif\n"
    return f"{HEAD}{functions}int main() {{ ENTER(1023);\n{calls}{printed}return 0; }}\n"
