"""Types of parameters: patterns that types of arguments match, and the texts of signatures.

A signature is `(name TYPE, name TYPE, ...) TYPE`. Types are those of statements, and `DECIMAL` (any precision and
scale), `ANY`, `INTERVALUNIT`, `LAMBDA(K, V) R`, and type variables, which are one capital letter. `TYPE...` is a
variadic parameter. Parameters in `[` `]` are optional. Those after `;` are constants of an aggregate function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker_sql.functions.calls import ArgumentType
from broker_sql.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_UNIT,
    MAX_PRECISION,
    PRIMITIVES,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    IntervalUnitType,
    LambdaShape,
    LambdaType,
    Map,
    Primitive,
    SqlType,
    Struct,
)

Bindings = dict[str, SqlType]
_LADDER: Final = {INTEGER: 0, BIGINT: 1, DOUBLE: 3}
_DECIMAL_STEP: Final = 2


def _step(kind: SqlType) -> int | None:
    if isinstance(kind, Decimal):
        return _DECIMAL_STEP
    return _LADDER.get(kind) if isinstance(kind, Primitive) else None


def widens(given: SqlType, wanted: SqlType) -> bool:
    """True if an implicit cast exists: from INTEGER to BIGINT to DECIMAL to DOUBLE, and from STRING to times."""
    if given == STRING:
        return wanted in (DATE, TIME, TIMESTAMP)
    low, high = _step(given), _step(wanted)
    return low is not None and high is not None and low < high


@dataclass(frozen=True, slots=True)
class Pattern:
    """Base of all patterns."""

    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        """True if the argument has the type; adds to `bound` the types of variables."""
        raise NotImplementedError

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        """Return the type that a call expects of an argument that matched."""
        raise NotImplementedError

    def variables(self) -> Iterator[str]:
        """Yield the variables, one for each place."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Exactly(Pattern):
    kind: SqlType

    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        return given is None or given == self.kind or (casts and widens(given, self.kind))

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        return self.kind

    def __str__(self) -> str:
        return "INT" if self.kind == INTEGER else str(self.kind)


@dataclass(frozen=True, slots=True)
class AnyDecimal(Pattern):
    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        return given is None or isinstance(given, Decimal) or (casts and given in (INTEGER, BIGINT))

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        return given and _as_decimal(given)

    def __str__(self) -> str:
        return "DECIMAL"


@dataclass(frozen=True, slots=True)
class Anything(Pattern):
    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        return not isinstance(given, LambdaType | LambdaShape | IntervalUnitType)

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        return given

    def __str__(self) -> str:
        return "ANY"


@dataclass(frozen=True, slots=True)
class Unit(Pattern):
    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        return given == INTERVAL_UNIT

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        return INTERVAL_UNIT

    def __str__(self) -> str:
        return "INTERVALUNIT"


@dataclass(frozen=True, slots=True)
class Variable(Pattern):
    name: str

    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        if given is None:
            return True
        if isinstance(given, LambdaType | LambdaShape | IntervalUnitType):
            return False
        known = bound.setdefault(self.name, given)
        if casts and isinstance(known, Decimal) != isinstance(given, Decimal):
            known, given = _as_decimal(known), _as_decimal(given)
            bound[self.name] = known
        if known == given or (casts and widens(given, known)):
            return True
        if isinstance(known, Decimal) and isinstance(given, Decimal):
            bound[self.name] = wider(known, given)
            return True
        if casts and widens(known, given):
            bound[self.name] = given
            return True
        return False

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        return bound.get(self.name)

    def variables(self) -> Iterator[str]:
        yield self.name

    def __str__(self) -> str:
        return self.name


_DIGITS: Final = {INTEGER: 10, BIGINT: 19}


def _as_decimal(kind: SqlType) -> SqlType:
    """Return the decimals that hold all values of an integer type; other types stay."""
    digits = _DIGITS.get(kind) if isinstance(kind, Primitive) else None
    return Decimal(digits, 0) if digits else kind


def wider(one: Decimal, other: Decimal) -> Decimal:
    """Return a type of decimals that holds the values of both, as far as the bound of the precision allows."""
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale)
    return Decimal(min(digits + scale, max(MAX_PRECISION, one.precision, other.precision)), scale)


@dataclass(frozen=True, slots=True)
class ArrayOf(Pattern):
    element: Pattern

    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        if given is None:
            return True
        return isinstance(given, Array) and self.element.matches(given.element, bound, casts)

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        element = self.element.concrete(bound, given.element if isinstance(given, Array) else None)
        return element and Array(element)

    def variables(self) -> Iterator[str]:
        return self.element.variables()

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapOf(Pattern):
    key: Pattern
    value: Pattern

    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        if given is None:
            return True
        return (
            isinstance(given, Map)
            and self.key.matches(given.key, bound, casts)
            and self.value.matches(given.value, bound, casts)
        )

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        key = self.key.concrete(bound, given.key if isinstance(given, Map) else None)
        value = self.value.concrete(bound, given.value if isinstance(given, Map) else None)
        return Map(key, value) if key is not None and value is not None else None

    def variables(self) -> Iterator[str]:
        yield from self.key.variables()
        yield from self.value.variables()

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class StructOf(Pattern):
    """The fields have these names and types, in any order, without casts."""

    fields: tuple[tuple[str, Pattern], ...]

    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        if given is None:
            return True
        if not isinstance(given, Struct) or len(given.fields) != len(self.fields):
            return False
        found = [(given.field(name), pattern) for name, pattern in self.fields]
        return all(kind is not None and pattern.matches(kind, bound, False) for kind, pattern in found)

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        if given is not None:
            return given
        kinds = [(name, pattern.concrete(bound, None)) for name, pattern in self.fields]
        known = tuple((name, kind) for name, kind in kinds if kind is not None)
        return Struct(known) if len(known) == len(kinds) else None

    def variables(self) -> Iterator[str]:
        for _, pattern in self.fields:
            yield from pattern.variables()

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name} {pattern}' for name, pattern in self.fields)}>"


@dataclass(frozen=True, slots=True)
class LambdaOf(Pattern):
    parameters: tuple[Pattern, ...]
    result: Pattern

    def matches(self, given: ArgumentType, bound: Bindings, casts: bool) -> bool:
        if isinstance(given, LambdaShape):
            return given.arity == len(self.parameters)
        if not isinstance(given, LambdaType) or len(given.parameters) != len(self.parameters):
            return False
        pairs = zip(self.parameters, given.parameters, strict=True)
        return all(pattern.matches(kind, bound, casts) for pattern, kind in pairs) and self.result.matches(
            given.result, bound, casts
        )

    def types(self, bound: Bindings) -> tuple[ArgumentType, ...]:
        """Return the types of the lambda's parameters; None if the other arguments do not determine one."""
        return tuple(each.concrete(bound, None) for each in self.parameters)

    def concrete(self, bound: Bindings, given: ArgumentType) -> ArgumentType:
        return given

    def variables(self) -> Iterator[str]:
        for each in (*self.parameters, self.result):
            yield from each.variables()

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.parameters))}) => {self.result}"


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    pattern: Pattern
    variadic: bool = False
    optional: bool = False
    constant: bool = False

    def __str__(self) -> str:
        return f"{self.pattern}{'...' if self.variadic else ''} {self.name}"


@dataclass(frozen=True, slots=True)
class Signature:
    """`result` is None if the return type is computed from the types of the arguments."""

    parameters: tuple[Parameter, ...]
    result: Pattern | None

    @property
    def variadic(self) -> int | None:
        """The position of the variadic parameter."""
        return next((index for index, each in enumerate(self.parameters) if each.variadic), None)


_TOKEN: Final = re.compile(r"\s*(\.\.\.|=>|[A-Za-z_][A-Za-z0-9_]*|\d+|[()<>,;\[\]])")


class _Reader:
    """Reads the text of a signature. Errors are errors of the program: ValueError."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, position = text, [], 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(f"signature {text!r}: {text[position:]!r}")
            self._tokens.append(found.group(1))
            position = found.end()
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise ValueError(f"signature {self._text!r}: {wanted or 'more'} is expected instead of {token!r}")
        self._at += 1
        return token

    def accept(self, wanted: str) -> bool:
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def pattern(self) -> Pattern:
        name = self.take()
        if name == "ARRAY":
            self.take("<")
            found: Pattern = ArrayOf(self.pattern())
            self.take(">")
        elif name == "MAP":
            self.take("<")
            key = self.pattern()
            self.take(",")
            found = MapOf(key, self.pattern())
            self.take(">")
        elif name == "STRUCT":
            found = self._struct()
        elif name == "LAMBDA":
            self.take("(")
            inputs = [self.pattern()]
            while self.accept(","):
                inputs.append(self.pattern())
            self.take(")")
            found = LambdaOf(tuple(inputs), self.pattern())
        elif name == "DECIMAL":
            found = self._decimal()
        elif name in _NAMED:
            found = _NAMED[name]
        elif len(name) == 1 and name.isupper():
            found = Variable(name)
        else:
            raise ValueError(f"signature {self._text!r}: no type is named {name}")
        return found

    def _struct(self) -> Pattern:
        self.take("<")
        fields = []
        while not self.accept(">"):
            name = self.take()
            fields.append((name, self.pattern()))
            self.accept(",")
        return StructOf(tuple(fields))

    def _decimal(self) -> Pattern:
        if not self.accept("("):
            return AnyDecimal()
        precision = int(self.take())
        self.take(",")
        scale = int(self.take())
        self.take(")")
        return Exactly(Decimal(precision, scale))

    def signature(self) -> Signature:
        found: list[Parameter] = []
        constant = False
        self.take("(")
        while not self.accept(")"):
            constant = self.accept(";") or constant
            optional = self.accept("[")
            name = self.take()
            pattern = self.pattern()
            variadic = self.accept("...")
            if optional:
                self.take("]")
            found.append(Parameter(name, pattern, variadic, optional, constant))
            self.accept(",")
        return Signature(tuple(found), self.pattern() if self.peek() else None)


_NAMED: Final[dict[str, Pattern]] = {
    **{name: Exactly(kind) for name, kind in PRIMITIVES.items()},
    "ANY": Anything(),
    "INTERVALUNIT": Unit(),
}


def signatures(text: str) -> list[Signature]:
    """Return the signature, once with each number of its optional parameters, the fewest first."""
    whole = _Reader(text).signature()
    optional = [index for index, each in enumerate(whole.parameters) if each.optional]
    found = []
    for present in range(len(optional) + 1):
        left_out = set(optional[present:])
        kept = tuple(each for index, each in enumerate(whole.parameters) if index not in left_out)
        found.append(Signature(kept, whole.result))
    return found


def expanded(signature: Signature, count: int) -> Sequence[Parameter] | None:
    """Return one parameter for each of `count` arguments; None if the signature does not have as many."""
    parameters, position = signature.parameters, signature.variadic
    if position is None:
        return parameters if len(parameters) == count else None
    repeated = count - len(parameters) + 1
    if repeated < 0:
        return None
    return (*parameters[:position], *(parameters[position],) * repeated, *parameters[position + 1 :])
