"""Python source of trees: one function for all expressions of a row.

Source is faster than closures, because a record then needs no call for an operator (measured: docs/sql.md). Each tree
becomes an expression of Python, or statements that assign it to a variable; operands are evaluated once, and branches
that SQL does not evaluate are not evaluated. NULL is tested only where a value can be NULL.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from broker_sql.expressions import casts, operations, tree
from broker_sql.expressions.tree import Tree
from broker_sql.java_format import BIGINT_MAX, BIGINT_MIN, INTEGER_MAX, INTEGER_MIN, wrap_bigint, wrap_integer
from broker_sql.types import BIGINT, BYTES, DOUBLE, INTEGER, STRING, Decimal, SqlType

_RANGES: Final[dict[SqlType | None, tuple[int, int, Callable[[int], int]]]] = {
    INTEGER: (INTEGER_MIN, INTEGER_MAX, wrap_integer),
    BIGINT: (BIGINT_MIN, BIGINT_MAX, wrap_bigint),
}
_DIVISION_GUARD: Final = 8  # digits of a quotient beyond those of its operands and result


@dataclass(frozen=True)
class Operand:
    """Code of a value. `atomic`: a name or constant, which may be used again. `nullable`: it may be None."""

    code: str
    nullable: bool = True
    atomic: bool = True


def may_fail(each: Tree) -> bool:
    """Whether evaluation may raise for values that have the types. A call catches its errors itself."""
    match each:
        case tree.Call() | tree.Const() | tree.Slot() | tree.Parameter():
            return False
        case tree.Convert():
            return True
        case tree.Arithmetic(op="/" | "%"):
            return True
    return any(may_fail(part) for part in each.parts)


# Branches of CASE that are written as if and else in each other, which is faster.
_NESTED_MAX: Final = 8


class Source:
    """A function in the making: its lines, and the objects that it refers to."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0
        self._columns: set[int] = set()
        self._lambdas = 0
        self.objects: dict[str, Any] = {}

    # Lines

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def _aside(self, deeper: int = 0) -> Iterator[list[str]]:
        """Collect the lines of a part, so that its place can be decided when they are known."""
        outer, self._lines = self._lines, []
        self._depth += deeper
        try:
            yield self._lines
        finally:
            self._lines = outer
            self._depth -= deeper

    def fresh(self, prefix: str = "x") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: Any) -> str:
        """Return the name of an object that the function refers to."""
        for name, each in self.objects.items():
            if each is value:
                return name
        name = self.fresh("k")
        self.objects[name] = value
        return name

    def text(self, name: str) -> str:
        columns = [f"    c{index} = row[{index}]" for index in sorted(self._columns)]
        return "\n".join([f"def {name}(row):", *columns, *self._lines, ""])

    # Operands

    def atom(self, operand: Operand) -> Operand:
        """Return the operand as a name or constant."""
        if operand.atomic:
            return operand
        name = self.fresh()
        self.line(f"{name} = {operand.code}")
        return Operand(name, operand.nullable)

    def value(self, each: Tree) -> Operand:
        return self.atom(self.emit(each))

    def _when_known(self, operands: Sequence[Operand], code: str, nullable: bool = False) -> Operand:
        """Return code for atoms that must not be None; without one of them the value is None."""
        tests = _tests(operands)
        if not tests:
            return Operand(code, nullable, atomic=False)
        return Operand(f"(None if {' or '.join(f'{each} is None' for each in tests)} else {code})", True, atomic=False)

    def _computed(self, operands: Sequence[Operand], code: str) -> Operand:
        """Return the code of an operator on values. In a lambda, an operand that is NULL fails the call around it."""
        tests = _tests(operands) if self._lambdas else []
        if tests:
            with self.block(f"if {' or '.join(f'{each} is None' for each in tests)}:"):
                self.line(f"{self.constant(operations.no_operand)}()")
            return Operand(code, nullable=False, atomic=False)
        return self._when_known(operands, code)

    def emit(self, each: Tree) -> Operand:
        """Return the code of a tree, after the statements that it needs."""
        return _EMITTERS[type(each)](self, each)

    def guarded(self, each: Tree, name: str) -> Operand:
        """Return the value of a tree as a name; None, and a line in the log, if its evaluation fails."""
        is_plain = isinstance(each, tree.Const | tree.Slot | tree.Parameter)
        # In a lambda, each operator fails on NULL.
        if is_plain or not (self._lambdas or may_fail(each)):
            return self.value(each)
        with self.block("try:"):
            self.line(f"{name} = {self.emit(each).code}")
        self.failed(each.node, name)
        return Operand(name)

    def failed(self, node: exp.Expr, name: str) -> None:
        with self.block("except Exception as error:"):
            self.line(f"{name} = fail(error, {self.constant(node)})")

    # Trees

    def const(self, each: tree.Const) -> Operand:
        value = each.value
        if value is None:
            return Operand("None")
        if isinstance(value, bool | int):
            return Operand(repr(value) if value >= 0 else f"({value!r})", nullable=False)
        if isinstance(value, str) and len(value) < 100:
            return Operand(repr(value), nullable=False)
        return Operand(self.constant(value), nullable=False)

    def slot(self, each: tree.Slot) -> Operand:
        self._columns.add(each.index)
        return Operand(f"c{each.index}")

    def parameter(self, each: tree.Parameter) -> Operand:
        return Operand(f"p_{each.name.encode().hex()}")

    def convert(self, each: tree.Convert) -> Operand:
        assert each.operand.kind is not None
        assert each.kind is not None
        operand = self.emit(each.operand)
        if each.operand.kind == INTEGER and each.kind == BIGINT:
            return operand
        function = casts.caster(each.operand.kind, each.kind)
        if function is None:
            return operand
        operand = self.atom(operand)
        return self._when_known([operand], f"{self._function(function)}({operand.code})")

    def _function(self, function: Callable[..., Any]) -> str:
        return function.__name__ if function in (float, str, int) else self.constant(function)

    def negate(self, each: tree.Negate) -> Operand:
        operand = self.value(each.operand)
        if isinstance(each.kind, Decimal):
            return self._computed([operand], f"{self.constant(operations.negate_decimal)}({operand.code})")
        found = self._computed([operand], f"-{operand.code}")
        return found if each.kind == DOUBLE else self._wrapped(found, each.kind)

    def _wrapped(self, operand: Operand, kind: SqlType | None) -> Operand:
        """Return the value within the range of its type: overflow wraps around, as in Java."""
        low, high, wrap = _RANGES[kind]
        result = self.atom(operand)
        known = f"{result.code} is not None and " if result.nullable else ""
        with self.block(f"if {known}not {low} <= {result.code} <= {high}:"):
            self.line(f"{result.code} = {self.constant(wrap)}({result.code})")
        return result

    def arithmetic(self, each: tree.Arithmetic) -> Operand:
        if isinstance(each.kind, Decimal):
            return self._decimals(each, each.kind)
        if each.op in "/%":
            return self._double_quotient(each) if each.kind == DOUBLE else self._integer_quotient(each)
        atoms: list[Operand] = []
        code = self._sum(each, each.kind, atoms)
        found = self._computed(atoms, code)
        return found if each.kind == DOUBLE else self._wrapped(found, each.kind)

    def _sum(self, each: Tree, kind: SqlType | None, atoms: list[Operand]) -> str:
        """Return a chain of + - * of one type as one expression: overflow may wrap around once, at its end."""
        if isinstance(each, tree.Arithmetic) and each.kind == kind and each.op in "+-*":
            left, right = self._sum(each.left, kind, atoms), self._sum(each.right, kind, atoms)
            return f"({left} {each.op} {right})"
        operand = self.value(each)
        atoms.append(operand)
        return operand.code

    def _double_quotient(self, each: tree.Arithmetic) -> Operand:
        left, right = self.value(each.left), self.value(each.right)
        function = operations.divide_doubles if each.op == "/" else operations.remainder_of_doubles
        code = f"{self.constant(function)}({left.code}, {right.code})"
        if each.op == "/":
            code = f"({left.code} / {right.code} if {right.code} else {code})"
        return self._computed([left, right], code)

    def _integer_quotient(self, each: tree.Arithmetic) -> Operand:
        """Divide towards zero; the remainder has the sign of the dividend."""
        left, right = self.value(each.left), self.value(each.right)
        result = self.atom(self._computed([left, right], f"{left.code} {'//' if each.op == '/' else '%'} {right.code}"))
        known = f"{result.code} is not None and " if result.nullable else ""
        if each.op == "/":
            with self.block(f"if {known}{result.code} < 0 and {result.code} * {right.code} != {left.code}:"):
                self.line(f"{result.code} += 1")
            return self._wrapped(result, each.kind)
        with self.block(f"if {result.code} and ({left.code} < 0) != ({right.code} < 0):"):
            self.line(f"{result.code} -= {right.code}")
        return result

    def _decimals(self, each: tree.Arithmetic, kind: Decimal) -> Operand:
        left, right = self.value(each.left), self.value(each.right)
        context = self.constant(
            decimal_context(kind.precision + _DIVISION_GUARD if each.op in "/%" else kind.precision)
        )
        operands = f"{left.code}, {right.code}"
        match each.op:
            case "+" | "-":
                code = f"{context}.{'add' if each.op == '+' else 'subtract'}({operands})"
            case "*":
                code = f"{self.constant(operations.multiply_decimals)}({operands}, {context})"
            case _:
                divide = each.op == "/"
                function = operations.divide_decimals if divide else operations.remainder_of_decimals
                if not divide:
                    context = self.constant(decimal_context(sum(_digits(part.kind) for part in each.parts)))
                unit = self.constant(decimal.Decimal((0, (1,), -kind.scale)))
                code = f"{self.constant(function)}({operands}, {unit}, {context})"
        return self._computed([left, right], code)

    def concat(self, each: tree.Concat) -> Operand:
        left, right = self.value(each.left), self.value(each.right)
        return self._computed([left, right], f"{left.code} + {right.code}")

    def compare(self, each: tree.Compare) -> Operand:
        left, right = self.value(each.left), self.value(each.right)
        tests = _tests([left, right])
        if each.op == "==":
            tests = tests[:1]  # None is equal to no other value
        code = f"{left.code} {each.op} {right.code}"
        kind = each.left.kind
        if each.op not in ("==", "!=") and kind in (STRING, BYTES):
            key = self.constant(operations.text_key if kind == STRING else operations.bytes_key)
            other = f"{key}({left.code}) {each.op} {key}({right.code})"
            if kind == BYTES:
                code = other
            elif not any(isinstance(side, tree.Const) and side.value.isascii() for side in each.parts):
                code = f"({code} if {left.code}.isascii() or {right.code}.isascii() else {other})"
        known = " and ".join([*(f"{test} is not None" for test in tests), code])
        return Operand(f"({known})", nullable=False, atomic=False)

    def distinct(self, each: tree.Distinct) -> Operand:
        left, right = self.value(each.left), self.value(each.right)
        return Operand(f"({left.code} {'==' if each.negated else '!='} {right.code})", nullable=False, atomic=False)

    def logic(self, each: tree.And | tree.Or) -> Operand:
        """Evaluate the right side only if the left one does not decide."""
        both = isinstance(each, tree.And)
        left = self.emit(each.left)
        with self._aside(deeper=1) as lines:
            right = self.emit(each.right)
        nullable = left.nullable or right.nullable
        if not lines:
            if both or not left.nullable:
                return Operand(f"({left.code} {'and' if both else 'or'} {right.code})", nullable, atomic=False)
            left = self.atom(left)
            return Operand(f"(None if {left.code} is None else {left.code} or {right.code})", nullable, atomic=False)
        result = self.fresh()
        self.line(f"{result} = {left.code}")
        with self.block(f"if {result}:" if both else f"if {result} is False:"):
            self._lines += lines
            self.line(f"{result} = {right.code}")
        return Operand(result, nullable)

    def negation(self, each: tree.Not) -> Operand:
        operand = self.emit(each.operand)
        if not operand.nullable:
            return Operand(f"(not {operand.code})", nullable=False, atomic=False)
        operand = self.atom(operand)
        return self._when_known([operand], f"not {operand.code}")

    def is_null(self, each: tree.IsNull) -> Operand:
        operand = self.emit(each.operand)
        if not operand.nullable:
            # The operand is still evaluated, because it may fail.
            operand = self.atom(operand)
            return Operand("False", nullable=False)
        return Operand(f"({operand.code} is None)", nullable=False, atomic=False)

    def member(self, each: tree.Member) -> Operand:
        value = self.value(each.value)
        known = f"{value.code} is not None and " if value.nullable else ""
        plain = [option.value for option in each.options if isinstance(option, tree.Const)]
        if len(plain) == len(each.options) and _hashable(plain):
            chosen = self.constant(frozenset(each for each in plain if each is not None))
            return Operand(f"({known}{value.code} in {chosen})", nullable=False, atomic=False)
        options = [self.value(option) for option in each.options]
        equal = " or ".join(f"{value.code} == {option.code}" for option in options)
        return Operand(f"({known}({equal}))", nullable=False, atomic=False)

    def like(self, each: tree.Like) -> Operand:
        value = self.value(each.value)
        if isinstance(each.pattern, tree.Const) and each.pattern.value is not None:
            return self._when_known([value], self._fixed_like(value.code, each.pattern.value, each.escape))
        pattern = self.value(each.pattern)
        function = self.constant(operations.like)
        return self._when_known([value, pattern], f"{function}({value.code}, {pattern.code}, {each.escape!r})")

    def _fixed_like(self, value: str, pattern: str, escape: str | None) -> str:
        inner = pattern.strip("%")
        if escape is None and "%" not in inner and "_" not in inner:
            starts, ends = pattern.startswith("%"), pattern.endswith("%")
            if starts and ends and len(pattern) > 1:
                return f"{inner!r} in {value}"
            if starts != ends:
                return f"{value}.{'endswith' if starts else 'startswith'}({inner!r})"
            if not starts:
                return f"{value} == {inner!r}"
        compiled = self.constant(operations.like_pattern(pattern, escape).fullmatch)
        return f"{compiled}({value}) is not None"

    def case(self, each: tree.Case) -> Operand:
        result = self.fresh()
        depth = self._depth
        if len(each.branches) > _NESTED_MAX:
            return self._long_case(each, result)
        for condition, value in each.branches:
            with self.block(f"if {self.emit(condition).code}:"):
                self.line(f"{result} = {self.emit(value).code}")
            self.line("else:")
            self._depth += 1
        self.line(f"{result} = {'None' if each.default is None else self.emit(each.default).code}")
        self._depth = depth
        return Operand(result)

    def _long_case(self, each: tree.Case, result: str) -> Operand:
        """The branches one below the other: Python allows 100 levels of indentation."""
        with self.block("while True:"):
            for condition, value in each.branches:
                with self.block(f"if {self.emit(condition).code}:"):
                    self.line(f"{result} = {self.emit(value).code}")
                    self.line("break")
            self.line(f"{result} = {'None' if each.default is None else self.emit(each.default).code}")
            self.line("break")
        return Operand(result)

    def item(self, each: tree.Item) -> Operand:
        array, index = self.value(each.left), self.value(each.right)
        code = f"{self.constant(operations.item)}({array.code}, {index.code})"
        if isinstance(each.right, tree.Const) and each.right.value and each.right.value > 0:
            at = each.right.value
            code = f"({array.code}[{at - 1}] if len({array.code}) >= {at} else None)"
        return self._when_known([array, index], code, nullable=True)

    def lookup(self, each: tree.Lookup) -> Operand:
        entries, key = self.value(each.left), self.value(each.right)
        return self._when_known([entries], f"{entries.code}.get({key.code})", nullable=True)

    def field(self, each: tree.Field) -> Operand:
        operand = self.value(each.operand)
        return self._when_known([operand], f"{operand.code}[{each.name!r}]", nullable=True)

    def make_array(self, each: tree.MakeArray) -> Operand:
        items = [self.guarded(item, self.fresh()).code for item in each.items]
        return Operand(f"[{', '.join(items)}]", nullable=False, atomic=False)

    def make_map(self, each: tree.MakeMap) -> Operand:
        entries = [
            f"{self.guarded(key, self.fresh()).code}: {self.guarded(value, self.fresh()).code}"
            for key, value in each.entries
        ]
        return Operand(f"{{{', '.join(entries)}}}", nullable=False, atomic=False)

    def make_struct(self, each: tree.MakeStruct) -> Operand:
        fields = [f"{name!r}: {self.guarded(value, self.fresh()).code}" for name, value in each.fields]
        return Operand(f"{{{', '.join(fields)}}}", nullable=False, atomic=False)

    def call(self, each: tree.Call) -> Operand:
        name = self.fresh()
        with self.block("try:"):
            arguments = ", ".join(self.emit(argument).code for argument in each.arguments)
            self.line(f"{name} = {self.constant(each.function)}({arguments})")
        self.failed(each.node, name)
        return Operand(name)

    def function(self, each: tree.Function) -> Operand:
        name = self.fresh("f")
        parameters = ", ".join(f"p_{each_name.encode().hex()}" for each_name in each.parameters)
        self._lambdas += 1
        with self.block(f"def {name}({parameters}):"):
            self.line(f"return {self.emit(each.body).code}")
        self._lambdas -= 1
        return Operand(name, nullable=False)


def _tests(operands: Sequence[Operand]) -> list[str]:
    return list(dict.fromkeys(each.code for each in operands if each.nullable))


def _hashable(values: Sequence[Any]) -> bool:
    return not any(isinstance(each, list | dict) for each in values)


def _digits(kind: SqlType | None) -> int:
    """Return the digits of a decimal type before and after the point, for an exact remainder."""
    return kind.precision if isinstance(kind, Decimal) else 0


def decimal_context(digits: int) -> decimal.Context:
    return decimal.Context(prec=max(digits, 1), rounding=decimal.ROUND_HALF_UP)


_EMITTERS: Final[dict[type[Tree], Callable[[Source, Any], Operand]]] = {
    tree.Const: Source.const,
    tree.Slot: Source.slot,
    tree.Parameter: Source.parameter,
    tree.Convert: Source.convert,
    tree.Negate: Source.negate,
    tree.Arithmetic: Source.arithmetic,
    tree.Concat: Source.concat,
    tree.Compare: Source.compare,
    tree.Distinct: Source.distinct,
    tree.And: Source.logic,
    tree.Or: Source.logic,
    tree.Not: Source.negation,
    tree.IsNull: Source.is_null,
    tree.Member: Source.member,
    tree.Like: Source.like,
    tree.Case: Source.case,
    tree.Item: Source.item,
    tree.Lookup: Source.lookup,
    tree.Field: Source.field,
    tree.MakeArray: Source.make_array,
    tree.MakeMap: Source.make_map,
    tree.MakeStruct: Source.make_struct,
    tree.Call: Source.call,
    tree.Function: Source.function,
}
