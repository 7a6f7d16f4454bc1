"""Definitions of functions: a module of functions makes a Category, and its functions with their overloads.

    TEXT = Category("STRING")
    length = TEXT.scalar("len", "Length of a text.", value="the text")

    @length("(value STRING) INT")
    def _(value: str | None) -> int | None: ...

An overload's Python function takes the values of the arguments; None for NULL, unless `strict=True`: then a None among
the arguments makes the result None. With `build=True` it takes a `Resolved` instead, and returns the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker_sql.functions.calls import ArgumentType, Call, Environment
from broker_sql.functions.patterns import Bindings, Signature, signatures
from broker_sql.types import SqlType

AUTHOR = "broker-cy"
F = TypeVar("F", bound=Callable[..., Any])
# Returns the return type for the types of the arguments, after implicit casts.
ReturnType = Callable[[tuple[ArgumentType, ...]], SqlType]
# Returns True for a type that a variable may have.
TypeTest = Callable[[SqlType], bool]


@dataclass(frozen=True, slots=True)
class Resolved:
    """An overload with the types of a call. `constants` are those of an aggregate function."""

    name: str
    types: tuple[ArgumentType, ...]
    return_type: SqlType | None
    bound: Bindings
    environment: Environment
    constants: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Overload:
    """`build` returns the Python function of a scalar or table function, or the `Parts` of an aggregate function."""

    signature: Signature
    build: Callable[[Resolved], Any]
    returns: ReturnType | None = None
    only: Mapping[str, TypeTest] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """The steps of an aggregate function: see `Aggregate`. `result` None: the state is the result."""

    initialize: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    intermediate: SqlType
    undo: Callable[[Any, Any], Any] | None = None
    result: Callable[[Any], Any] | None = None
    return_type: SqlType | None = None


class Function:
    """A function by name. Calling it returns a decorator that adds an overload."""

    def __init__(
        self, name: str, kind: str, category: str, description: str, arguments: Mapping[str, str], author: str = AUTHOR
    ) -> None:
        self.name, self.key, self.kind, self.category = name, name.upper(), kind, category
        self.description, self.arguments, self.author = description, arguments, author
        self.overloads: list[Overload] = []

    def __call__(
        self,
        *texts: str,
        strict: bool = False,
        build: bool = False,
        returns: ReturnType | None = None,
        only: Mapping[str, TypeTest] | None = None,
        description: str = "",
    ) -> Callable[[F], F]:
        """Add an overload for each signature in `texts` (see `patterns`)."""

        def decorate(function: F) -> F:
            made = (
                function if build or self.kind == "AGGREGATE" else _constant(strictly(function) if strict else function)
            )
            for text in texts:
                for signature in signatures(text):
                    self._check(signature)
                    self.overloads.append(Overload(signature, made, returns, only or {}, description))
            return function

        return decorate

    def _check(self, signature: Signature) -> None:
        """An argument without a description is an error of the program: ValueError."""
        for each in signature.parameters:
            if each.name not in self.arguments:
                raise ValueError(f"{self.name}: the argument {each.name} has no description")


def _constant(function: Call) -> Callable[[Resolved], Call]:
    return lambda _resolved: function


def strictly(function: Call) -> Call:
    """Return the function with the result None if an argument is None."""

    def one(value: Any) -> Any:
        return None if value is None else function(value)

    def two(first: Any, second: Any) -> Any:
        return None if first is None or second is None else function(first, second)

    def three(first: Any, second: Any, third: Any) -> Any:
        return None if first is None or second is None or third is None else function(first, second, third)

    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__defaults__", None) or code.co_flags & inspect.CO_VARARGS:
        return _all_present(function)
    by_count: dict[int, Call] = {1: one, 2: two, 3: three}
    return by_count.get(code.co_argcount) or _all_present(function)


def _all_present(function: Call) -> Call:
    def call(*arguments: Any) -> Any:
        for each in arguments:
            if each is None:
                return None
        return function(*arguments)

    return call


class Category:
    """A group of functions in lists and in documentation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions: list[Function] = []

    def _add(self, name: str, kind: str, description: str, arguments: Mapping[str, str]) -> Function:
        made = Function(name, kind, self.name, description, arguments)
        self.functions.append(made)
        return made

    def scalar(self, name: str, description: str, /, **arguments: str) -> Function:
        return self._add(name, "SCALAR", description, arguments)

    def aggregate(self, name: str, description: str, /, **arguments: str) -> Function:
        return self._add(name, "AGGREGATE", description, arguments)

    def table(self, name: str, description: str, /, **arguments: str) -> Function:
        return self._add(name, "TABLE", description, arguments)


def same_type(types: Sequence[ArgumentType]) -> SqlType:
    """Return type: the type of the first argument that is not NULL."""
    return next(each for each in types if each is not None)
