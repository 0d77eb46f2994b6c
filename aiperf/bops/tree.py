"""Operators, loops and calls of C and C++ sources, read from clang's syntax tree (PyPI: libclang)."""

from __future__ import annotations

import ctypes
import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clang import cindex
from clang.cindex import Cursor, CursorKind, TypeKind

from aiperf.bops.coverage import Place
from aiperf.bops.rules import ADDRESS, BINARY, COMPARE, UNARY, CountingRule
from aiperf.errors import BadConfiguration
from aiperf.files import read_bounded

LARGEST = 256 << 20
"""Bytes of a source, also after the preprocessor."""


class CannotCount(BadConfiguration):
    """Error for a source, a construct or a program with basic operations that cannot be counted."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Place of an operator, a condition, a loop body or a call in the sources, with the function around it."""

    file: str
    place: Place
    function: str
    guard: Place | None
    """Start of the innermost branch of an `if constexpr` around the place."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator in the sources, with its counting rule and its number of basic operations per execution."""

    spot: Spot
    rule: CountingRule
    count: int
    is_dependent: bool
    """True if its operands have the type of a template's parameter."""
    is_floating: bool
    """True if one of its operands is a floating-point number."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop with a condition that is tested before the body: a for or while loop."""

    condition: Spot
    body: Spot
    is_range: bool


@dataclass(frozen=True, slots=True)
class Call:
    """Call of a function that has no body in the counted files."""

    spot: Spot
    name: str


@dataclass(slots=True)
class Tree:
    """Operators, loops, calls and functions of all counted source files."""

    operators: list[Operator] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    """Functions with a body in the files."""
    passed: set[str] = field(default_factory=set)
    """Functions without a body whose address is used."""
    upper_bounds: dict[str, str] = field(default_factory=dict)
    """Constructs after which a region may be left early, with their places."""


class SourceText:
    """Text of one file, with the origin of each line: a preprocessed file contains lines of many files."""

    def __init__(self, path: Path, *, is_preprocessed: bool) -> None:
        self.path = str(path)
        self.is_c = path.suffix in (".c", ".i")
        self.text = read_bounded(path, LARGEST)
        self._starts = [0]
        self._marks: list[int] = []
        self._origins: list[tuple[str, int, bool]] = []
        for number, line in enumerate(self.text.split(b"\n"), start=1):
            self._starts.append(self._starts[-1] + len(line) + 1)
            mark = re.match(rb'# (\d+) "(.*)"((?: \d)*)$', line) if is_preprocessed else None
            if mark:
                self._marks.append(number)
                is_system = b"3" in mark[3].split()
                self._origins.append((mark[2].decode(errors="replace"), int(mark[1]), is_system))

    def place(self, offset: int) -> Place:
        """Return the place of a byte of the text as (line, column), both from 1. `offset`: index of the byte, from 0."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def origin(self, line: int) -> tuple[str, int, bool]:
        """Original file and line number of `line` (from 1), and True if the file is a system header."""
        index = bisect_right(self._marks, line) - 1
        if index < 0:
            return self.path, line, False
        file, first, is_system = self._origins[index]
        return file, first + line - self._marks[index] - 1, is_system

    def after(self, offset: int) -> int:
        """Return the offset of the next token at or after `offset`. Offsets are byte indices from 0."""
        match = re.compile(rb"(?:\n# [^\n]*|\\\n|//[^\n]*|/\*.*?\*/|\s)*", re.S).match(self.text, offset)
        return match.end() if match else offset

    def semicolons(self, offset: int) -> list[int]:
        """Return the byte offsets of the semicolons in the head (the part in parentheses) of a for loop at byte `offset`."""
        depth, semicolons = 0, []
        for token in re.compile(rb'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[(){};]').finditer(self.text, offset):
            sign = token[0]
            depth += (sign in b"({") - (sign in b")}")
            if sign == b";" and depth == 1:
                semicolons.append(token.start())
            if sign == b")" and depth == 0:
                return semicolons
        raise CannotCount(f"the head of a loop ends with ')', but found none at {self.shown(offset)}: correct it")

    def shown(self, offset: int) -> str:
        """Return the original place of a byte as text 'FILE:LINE', for messages. `offset`: index of the byte, from 0."""
        file, line, _ = self.origin(self.place(offset)[0])
        return f"{file}:{line}"


_SKIPPED = {
    CursorKind.CXX_UNARY_EXPR,
    CursorKind.SIZE_OF_PACK_EXPR,
    CursorKind.ENUM_DECL,
    CursorKind.STATIC_ASSERT,
    CursorKind.TYPEDEF_DECL,
    CursorKind.TYPE_ALIAS_DECL,
    CursorKind.TYPE_ALIAS_TEMPLATE_DECL,
    CursorKind.CXX_TYPEID_EXPR,
}
_UNKNOWN = {
    CursorKind.ASM_STMT: "inline assembly: write it in C, or leave the function out",
    CursorKind.MS_ASM_STMT: "inline assembly: write it in C, or leave the function out",
    CursorKind.INDIRECT_GOTO_STMT: "computed goto: use a switch",
    CursorKind.GENERIC_SELECTION_EXPR: "_Generic: call the chosen function",
    CursorKind.BLOCK_EXPR: "block: use a function",
    CursorKind.CONCEPT_DECL: "concept: leave it out",
}
_FUNCTIONS = {
    CursorKind.FUNCTION_DECL,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
    CursorKind.FUNCTION_TEMPLATE,
}
_BODIES = (CursorKind.COMPOUND_STMT, CursorKind.CXX_TRY_STMT)
_LOOPS = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.CXX_FOR_RANGE_STMT}
_LITERALS = {
    CursorKind.INTEGER_LITERAL,
    CursorKind.FLOATING_LITERAL,
    CursorKind.CHARACTER_LITERAL,
    CursorKind.CXX_BOOL_LITERAL_EXPR,
    CursorKind.CXX_UNARY_EXPR,
    CursorKind.SIZE_OF_PACK_EXPR,
    CursorKind.TYPE_REF,
}
_WRAPPERS = {CursorKind.PAREN_EXPR, CursorKind.UNEXPOSED_EXPR, CursorKind.CSTYLE_CAST_EXPR}
_FLOATING = {TypeKind.HALF, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE, TypeKind.FLOAT128}
_LEAVING = {"exit", "_exit", "quick_exit", "longjmp", "siglongjmp", "pthread_exit", "abort"}
_FREE = re.compile(r"__builtin_(expect|unreachable|assume|va_\w+|offsetof|constant_p|object_size)")


@functools.cache
def _library() -> Any:
    library = cindex.conf.lib
    for name in ("clang_getCursorBinaryOperatorKind", "clang_getCursorUnaryOperatorKind"):
        getattr(library, name).argtypes = [Cursor]
        getattr(library, name).restype = ctypes.c_int
    library.clang_Cursor_getVarDeclInitializer.argtypes = [Cursor]
    library.clang_Cursor_getVarDeclInitializer.restype = Cursor
    library.clang_Cursor_getVarDeclInitializer.errcheck = Cursor.from_cursor_result
    library.clang_Cursor_Evaluate.argtypes = [Cursor]
    library.clang_Cursor_Evaluate.restype = ctypes.c_void_p
    library.clang_EvalResult_dispose.argtypes = [ctypes.c_void_p]
    return library


def read_tree(texts: Sequence[SourceText], arguments: Sequence[Sequence[str]]) -> Tree:
    """Parse C and C++ sources with clang, and return their operators, loops, calls and functions."""
    tree = Tree()
    for text, words in zip(texts, arguments, strict=True):
        parsed = cindex.Index.create().parse(text.path, args=list(words))
        for diagnostic in parsed.diagnostics:
            at = diagnostic.location
            if diagnostic.severity >= 3 and not text.origin(at.line)[2]:
                raise CannotCount(
                    f"a source does not compile at {text.shown(at.offset)}: {diagnostic.spelling!r}. Correct it"
                )
        _Reader(text, tree).read(parsed.cursor)
    return tree


class _Reader:
    def __init__(self, text: SourceText, tree: Tree) -> None:
        self._text, self._tree = text, tree
        self._function = ""
        self._guard: Place | None = None
        self._body: Place | None = None
        """Start of a constructor's body, while its initializers are visited. They are executed as often."""
        self._loops: list[int] = []
        self._inner: list[CursorKind] = []
        """Kinds of the loops and switches around a statement, innermost last."""
        self._gotos: list[tuple[Cursor, tuple[int, ...]]] = []
        self._labels: dict[int, tuple[int, ...]] = {}

    def read(self, cursor: Cursor) -> None:
        for child in cursor.get_children():
            if not self._is_system(child):
                self._visit(child)
        for label, loops in self._gotos:
            if not set(self._labels.get(label.extent.start.offset, ())) <= set(loops):
                raise self._refused(label, "a goto into a loop: enter the loop at its head")

    def _is_system(self, cursor: Cursor) -> bool:
        file = cursor.location.file
        return file is None or file.name != self._text.path or self._text.origin(cursor.location.line)[2]

    def _refused(self, cursor: Cursor, reason: str) -> CannotCount:
        place = self._text.shown(cursor.extent.start.offset)
        return CannotCount(f"every construct has a counting rule, but {place} has none for {reason}")

    def _visit(self, cursor: Cursor) -> None:
        kind = cursor.kind
        if kind in _SKIPPED:
            return
        if kind in _UNKNOWN:
            raise self._refused(cursor, _UNKNOWN[kind])
        if kind.name.startswith("OMP_"):
            raise self._refused(cursor, "an OpenMP directive: compile without -fopenmp")
        children = list(cursor.get_children())
        if kind in _FUNCTIONS:
            self._visit_function(cursor, children)
        elif kind == CursorKind.VAR_DECL:
            self._visit_variable(cursor, children)
        elif kind in (CursorKind.FIELD_DECL, CursorKind.PARM_DECL):
            self._visit_initializers(cursor, children)
        elif kind in _LOOPS:
            self._visit_loop(cursor, children)
        elif kind == CursorKind.IF_STMT and self._is_constexpr_if(cursor):
            outer = self._guard
            for branch in children[1:]:
                self._guard = self._text.place(branch.extent.start.offset)
                self._visit(branch)
            self._guard = outer
        elif kind == CursorKind.DECL_REF_EXPR:
            self._note(cursor, kind, children)  # its children are arguments of a template
        elif kind == CursorKind.MEMBER_REF_EXPR:
            self._visit_all([each for each in children if each.kind.is_expression()][:1])
        elif kind in (CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT):
            if self._inner[-1] is not CursorKind.SWITCH_STMT:
                raise self._refused(cursor, "a case label inside a loop of its switch: enter the loop at its head")
            self._visit_all(children[1:] if kind == CursorKind.CASE_STMT else children)
        elif kind == CursorKind.SWITCH_STMT:
            self._inner.append(kind)
            self._visit_all(children)
            self._inner.pop()
        else:
            self._note(cursor, kind, children)
            self._visit_all(children)

    def _visit_all(self, cursors: Sequence[Cursor]) -> None:
        for cursor in cursors:
            self._visit(cursor)

    def _note(self, cursor: Cursor, kind: CursorKind, children: list[Cursor]) -> None:
        if kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR):
            self._operator(cursor, children, BINARY, _library().clang_getCursorBinaryOperatorKind(cursor))
        elif kind == CursorKind.UNARY_OPERATOR:
            self._operator(cursor, children, UNARY, _library().clang_getCursorUnaryOperatorKind(cursor))
        elif kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
            self._add(cursor, self._after(children[0]), ADDRESS, 1, _is_dependent(children[:1]))
        elif kind == CursorKind.CALL_EXPR:
            self._call(cursor, children)
        elif kind == CursorKind.DECL_REF_EXPR and cursor.referenced is not None:
            self._passed(cursor)
        elif kind == CursorKind.CXX_THROW_EXPR:
            self._tree.upper_bounds.setdefault("throw", self._text.shown(cursor.extent.start.offset))
        elif kind in (CursorKind.CXX_NEW_EXPR, CursorKind.CXX_DELETE_EXPR):
            name = "operator new" if kind == CursorKind.CXX_NEW_EXPR else "operator delete"
            self._tree.calls.append(Call(self._spot(cursor.extent.start.offset), name))
        elif kind == CursorKind.LABEL_STMT:
            self._labels[cursor.extent.start.offset] = tuple(self._loops)
        elif kind == CursorKind.LABEL_REF and cursor.referenced is not None:
            self._gotos.append((cursor.referenced, tuple(self._loops)))
        elif kind == CursorKind.UNEXPOSED_EXPR and sum(each.kind.is_expression() for each in children) > 1:
            if self._words(cursor).startswith(("[", ".")):
                return  # [index] = value or .member[index] = value in braces
            raise self._refused(cursor, f"the expression {self._words(cursor)!r}: write it with plain operators")

    def _words(self, cursor: Cursor) -> str:
        return self._text.text[cursor.extent.start.offset : cursor.extent.end.offset][:80].decode(errors="replace")

    def _spot(self, offset: int) -> Spot:
        return Spot(self._text.path, self._body or self._text.place(offset), self._function, self._guard)

    def _after(self, cursor: Cursor) -> int:
        return self._text.after(cursor.extent.end.offset)

    def _operator(self, cursor: Cursor, children: list[Cursor], rules: dict[int, CountingRule], number: int) -> None:
        rule = rules.get(number)
        if rule is None:
            raise self._refused(cursor, f"the operator of {self._words(cursor)!r}: write it with another one")
        if rule.operation is None or (_is_constant(cursor) and rule.count):
            return
        if any(child.type.get_canonical().kind == TypeKind.COMPLEX for child in (cursor, *children)):
            raise self._refused(cursor, "an operator of complex numbers: write its real operations")
        lanes = 1
        is_floating = False
        for each in (cursor, *children):
            canonical = each.type.get_canonical()
            if canonical.kind in (TypeKind.VECTOR, TypeKind.EXTVECTOR):
                lanes = canonical.element_count
                canonical = canonical.element_type.get_canonical()
            is_floating |= canonical.kind in _FLOATING
        at = self._after(children[0]) if len(children) > 1 else cursor.extent.start.offset
        self._add(cursor, at, rule, rule.count * lanes, _is_dependent(children), is_floating)

    def _add(
        self, cursor: Cursor, offset: int, rule: CountingRule, count: int, is_dependent: bool, is_floating: bool = False
    ) -> None:
        names = rb"[-+*/%<>=!&|^[~?:]|(and|or|not|xor|bitand|bitor|compl|not_eq)(_eq)?\b"
        if not re.match(names, self._text.text[offset : offset + 10]):  # in a macro, or after its operand
            offset = cursor.extent.start.offset
        self._tree.operators.append(Operator(self._spot(offset), rule, count, is_dependent, is_floating))

    def _call(self, cursor: Cursor, children: list[Cursor]) -> None:
        target = cursor.referenced
        name = cursor.spelling
        at = self._spot(max(cursor.extent.start.offset, cursor.extent.end.offset - 1))
        if target is not None and target.kind not in _FUNCTIONS:
            return  # through a pointer: `Tree.passed` names library functions that may be meant
        if name in _LEAVING and self._function != "main":
            self._tree.upper_bounds.setdefault(name, self._text.shown(cursor.extent.start.offset))
        if name in ("setjmp", "_setjmp", "sigsetjmp"):
            self._tree.upper_bounds.setdefault("setjmp", self._text.shown(cursor.extent.start.offset))
        if not name or _FREE.match(name):
            return
        if target is None or self._is_system(target) or not self._has_body(target):
            owner = None if target is None else target.semantic_parent
            scope = "std::" if owner is not None and owner.spelling == "std" else ""
            self._tree.calls.append(Call(at, scope + name))

    def _has_body(self, target: Cursor) -> bool:
        if target.kind in (CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR):
            return True  # an implicit one has no operators
        return target.get_definition() is not None or "operator=" in target.spelling

    def _passed(self, cursor: Cursor) -> None:
        target = cursor.referenced
        if target.kind == CursorKind.FUNCTION_DECL and target.get_definition() is None:
            after = self._text.text[self._text.after(cursor.extent.end.offset) :][:1]
            if after != b"(" and not _FREE.match(target.spelling) and "operator" not in target.spelling:
                self._tree.passed.add(target.spelling)

    def _visit_function(self, cursor: Cursor, children: list[Cursor]) -> None:
        if self._is_system(cursor):
            return
        outer, loops = self._function, self._loops
        owner = cursor.semantic_parent
        scope = f"{owner.spelling}::" if owner is not None and owner.kind.name.startswith(("CLASS", "STRUCT")) else ""
        self._function, self._loops = scope + cursor.spelling, []
        bodies = [child for child in children if child.kind in _BODIES]
        if bodies:
            self._tree.functions.add(self._function)
            self._body = self._text.place(bodies[0].extent.start.offset)
        for child in children:
            if child.kind.is_expression():
                if any(map(self._is_branch, child.walk_preorder())):
                    raise self._refused(
                        child, "a branch or a lambda in the initializer of a member: assign it in the body"
                    )
                self._visit(child)
        self._body = None
        self._visit_all([child for child in children if child.kind in (CursorKind.PARM_DECL, *_BODIES)])
        self._function, self._loops = outer, loops

    def _visit_variable(self, cursor: Cursor, children: list[Cursor]) -> None:
        if cursor.type.get_canonical().kind == TypeKind.VARIABLEARRAY:
            self._visit_all([child for child in children if child.kind.is_expression()])
            return
        first = _library().clang_Cursor_getVarDeclInitializer(cursor)
        if first is None:
            return
        head = self._text.text[cursor.extent.start.offset : first.extent.start.offset]
        if re.search(rb"\bconstexpr\b", head):
            return
        if not self._function or cursor.storage_class == cindex.StorageClass.STATIC:
            self._visit_initializers(cursor, [first])
        else:
            self._visit(first)

    def _visit_initializers(self, cursor: Cursor, children: list[Cursor]) -> None:
        """Visit initializers of globals, statics, members and parameters, whose executions no region counts."""
        for child in children:
            if not child.kind.is_expression() or self._text.is_c or self._is_size(child):
                continue
            if not any(map(self._is_counted, _outside_lambdas(child))):
                self._visit(child)
            elif not _is_evaluated(child):
                raise self._refused(
                    cursor,
                    f"operators in the initializer of {cursor.spelling!r}, which runs outside of a function's region: "
                    "assign the value in a function",
                )

    def _is_size(self, cursor: Cursor) -> bool:
        before = self._text.text[: cursor.extent.start.offset].rstrip()[-1:]
        return before == b":" or self._text.text[self._after(cursor) :][:1] == b"]"

    def _is_branch(self, cursor: Cursor) -> bool:
        if cursor.kind == CursorKind.BINARY_OPERATOR:
            return BINARY[_library().clang_getCursorBinaryOperatorKind(cursor)].operation == "logic"
        return cursor.kind in (CursorKind.CONDITIONAL_OPERATOR, CursorKind.LAMBDA_EXPR)

    def _is_counted(self, cursor: Cursor) -> bool:
        kinds = (CursorKind.BINARY_OPERATOR, CursorKind.UNARY_OPERATOR, CursorKind.ARRAY_SUBSCRIPT_EXPR)
        return cursor.kind in kinds and not _is_constant(cursor)

    def _is_constexpr_if(self, cursor: Cursor) -> bool:
        return re.match(rb"if\s+constexpr\b", self._text.text[cursor.extent.start.offset :][:30]) is not None

    def _visit_loop(self, cursor: Cursor, children: list[Cursor]) -> None:
        offset, kind = cursor.extent.start.offset, cursor.kind
        self._loops.append(offset)
        self._inner.append(kind)
        if kind == CursorKind.CXX_FOR_RANGE_STMT:
            colon = children[0].extent.end.offset - 1
            self._tree.loops.append(Loop(self._spot(colon), self._spot(children[-1].extent.start.offset), True))
            self._visit_all(children[1:])
        elif kind == CursorKind.DO_STMT:
            self._visit_all(children)
        else:
            condition = self._condition(cursor, children)
            if condition is not None and any(self._compares(each) for each in condition.walk_preorder()):
                spots = [self._spot(each.extent.start.offset) for each in (condition, children[-1])]
                self._tree.loops.append(Loop(spots[0], spots[1], False))
            self._visit_all(children)
        self._loops.pop()
        self._inner.pop()

    def _condition(self, cursor: Cursor, children: list[Cursor]) -> Cursor | None:
        if cursor.kind == CursorKind.WHILE_STMT:
            return children[-2]
        semicolons = self._text.semicolons(cursor.extent.start.offset)
        inside = [each for each in children[:-1] if semicolons[0] < each.extent.start.offset < semicolons[1]]
        return inside[-1] if inside else None

    def _compares(self, cursor: Cursor) -> bool:
        if cursor.kind != CursorKind.BINARY_OPERATOR or _is_constant(cursor):
            return False
        return BINARY[_library().clang_getCursorBinaryOperatorKind(cursor)] is COMPARE


def _outside_lambdas(cursor: Cursor) -> Iterator[Cursor]:
    yield cursor
    if cursor.kind != CursorKind.LAMBDA_EXPR:
        for child in cursor.get_children():
            yield from _outside_lambdas(child)


def _is_dependent(cursors: Sequence[Cursor]) -> bool:
    """Return True if a type is one of a template's parameter."""
    kinds = {TypeKind.DEPENDENT, TypeKind.UNEXPOSED, TypeKind.INVALID}
    return any(each.type.get_canonical().kind in kinds for each in cursors if each.kind.is_expression())


def _is_constant(cursor: Cursor) -> bool:
    kind = cursor.kind
    if kind in _LITERALS:
        return True
    if kind == CursorKind.DECL_REF_EXPR:
        target = cursor.referenced
        return target is not None and target.kind == CursorKind.ENUM_CONSTANT_DECL
    if kind in _WRAPPERS or kind in (CursorKind.BINARY_OPERATOR, CursorKind.UNARY_OPERATOR):
        children = list(cursor.get_children())
        return bool(children) and all(map(_is_constant, children))
    return False


def _is_evaluated(cursor: Cursor) -> bool:
    """Return True if clang evaluates an expression at compile time."""
    result = _library().clang_Cursor_Evaluate(cursor)
    if result:
        _library().clang_EvalResult_dispose(result)
    return bool(result)
