"""The registry of functions: a name and the types of arguments to a call.

A call is resolved as ksqlDB does (its documentation and query tests): overloads that accept the types as they are come
first; only if there is none, overloads that accept them after implicit casts. Of several, the one without variadic
parameter wins, then more other parameters, then fewer type variables, then a later variadic parameter. Otherwise the
call is ambiguous.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_sql.errors import AnalysisError
from broker_sql.functions.calls import Aggregate, ArgumentType, Call, Environment, LambdaShape, ScalarCall, TableCall
from broker_sql.functions.definitions import Function, Overload, Parts, Resolved
from broker_sql.functions.patterns import (
    Anything,
    ArrayOf,
    Bindings,
    LambdaOf,
    Parameter,
    Signature,
    expanded,
)
from broker_sql.types import SqlType

_SUGGESTIONS: Final = 3


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    name: str
    type: str
    description: str
    variadic: bool


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    arguments: tuple[ArgumentInfo, ...]
    return_type: str
    description: str


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """Facts for SHOW FUNCTIONS and DESCRIBE FUNCTION. `kind` is SCALAR, AGGREGATE or TABLE."""

    name: str
    kind: str
    category: str
    author: str
    description: str
    signatures: tuple[SignatureInfo, ...]


@dataclass(frozen=True, slots=True)
class _Match:
    overload: Overload
    bound: Bindings
    types: tuple[ArgumentType, ...]
    parameters: Sequence[Parameter]
    spread: bool

    @property
    def rank(self) -> tuple[int, ...]:
        """The preference among matches: the greatest wins."""
        signature = self.overload.signature
        position = signature.variadic
        generics = sum(1 for each in signature.parameters for _ in each.pattern.variables())
        objects = position is not None and isinstance(signature.parameters[position].pattern, Anything)
        fixed = len(signature.parameters) - (position is not None)
        return (position is None, fixed, -(generics + objects), not objects, -1 if position is None else position)


class FunctionRegistry:
    """Functions by name, which has no case. A registry does not change: `extended` returns a new one."""

    def __init__(self, functions: Iterable[Function], environment: Environment | None = None) -> None:
        self._functions: dict[str, Function] = {}
        self.environment = environment or Environment()
        for each in functions:
            if each.key in self._functions:
                raise ValueError(f"function {each.name} exists already")
            self._functions[each.key] = each

    def extended(self, functions: Iterable[Function]) -> FunctionRegistry:
        """Return a registry with more functions. Raises ValueError if a name is taken."""
        return FunctionRegistry([*self._functions.values(), *functions], self.environment)

    def without(self, name: str) -> FunctionRegistry:
        """Return a registry without the function."""
        kept = [each for each in self._functions.values() if each.key != name.upper()]
        return FunctionRegistry(kept, self.environment)

    def names(self) -> list[str]:
        """Return the names in upper case, sorted."""
        return sorted(self._functions)

    def exists(self, name: str) -> bool:
        return name.upper() in self._functions

    def is_aggregate(self, name: str) -> bool:
        return self._is(name, "AGGREGATE")

    def is_table(self, name: str) -> bool:
        return self._is(name, "TABLE")

    def _is(self, name: str, kind: str) -> bool:
        found = self._functions.get(name.upper())
        return found is not None and found.kind == kind

    def scalar(self, name: str, argument_types: Sequence[ArgumentType]) -> ScalarCall:
        """Return the call of a scalar function. Raises AnalysisError, without a location."""
        function = self._find(name, "SCALAR")
        match = _choose(function, argument_types, casts=True)
        return_type = _return_type(function, match)
        call = self._call(function, match, return_type)
        return ScalarCall(function.key, _expected(match, argument_types), return_type, call)

    def lambda_parameters(
        self, name: str, argument_types: Sequence[ArgumentType]
    ) -> tuple[tuple[SqlType, ...] | None, ...]:
        """Return, for each argument that is a LambdaShape, the types of the lambda's parameters; None for the others.

        The caller finds the type of the lambda's body with them, and calls `scalar` with LambdaType in its place.
        Raises AnalysisError, without a location."""
        function = self._find(name, "SCALAR")
        match = _choose(function, argument_types, casts=True)
        return tuple(
            _lambda_types(function, parameter, given, match)
            for parameter, given in zip(match.parameters, argument_types, strict=True)
        )

    def table(self, name: str, argument_types: Sequence[ArgumentType]) -> TableCall:
        """Return the call of a table function. Raises AnalysisError, without a location."""
        function = self._find(name, "TABLE")
        match = _choose(function, argument_types, casts=True)
        return_type = _return_type(function, match)
        call = self._call(function, match, return_type)
        return TableCall(function.key, _expected(match, argument_types), return_type, call)

    def aggregate(
        self,
        name: str,
        argument_types: Sequence[ArgumentType],
        constants: Mapping[int, Any] | None = None,
        texts: Sequence[str] = (),
    ) -> Aggregate:
        """Return the aggregation. `constants` has the values of the arguments that are literals, by position from 0.

        COUNT(*) has no arguments. `texts` are the arguments as written, for errors. Raises AnalysisError, without a
        location."""
        function = self._find(name, "AGGREGATE")
        match = _choose(function, argument_types, casts=False)
        values = []
        for position, parameter in enumerate(match.parameters):
            if parameter.constant:
                values.append(_constant(function, position, constants or {}, texts))
        bound_type = _return_type(function, match, optional=True)
        resolved = Resolved(function.key, match.types, bound_type, match.bound, self.environment, tuple(values))
        parts: Parts = match.overload.build(resolved)
        return_type = parts.return_type or bound_type
        if return_type is None:
            raise _untyped(function)
        columns = [each for each in match.overload.signature.parameters if not each.constant]
        return Aggregate(
            name=function.key,
            columns=len(match.parameters) - len(values),
            multiple=len(columns) > 1 or any(each.variadic for each in columns),
            parameters=match.types,
            initialize=parts.initialize,
            add=parts.add,
            undo=parts.undo,
            merge=parts.merge,
            result=parts.result or _same,
            intermediate=parts.intermediate,
            return_type=return_type,
        )

    def describe(self, name: str) -> FunctionInfo:
        """Return the facts of a function. Raises AnalysisError."""
        function = self._functions.get(name.upper())
        if function is None:
            raise self._unknown(name)
        found = [_info(function, each) for each in function.overloads]
        ordered = tuple(sorted(found, key=lambda each: (len(each.arguments), str(each.arguments))))
        return FunctionInfo(
            function.key, function.kind, function.category, function.author, function.description, ordered
        )

    def _call(self, function: Function, match: _Match, return_type: SqlType) -> Call:
        resolved = Resolved(function.key, match.types, return_type, match.bound, self.environment)
        call: Call = match.overload.build(resolved)
        return _spread(call, match) if match.spread else call

    def _find(self, name: str, kind: str) -> Function:
        found = self._functions.get(name.upper())
        if found is None:
            raise self._unknown(name)
        if found.kind != kind:
            raise AnalysisError(f"{found.key} is not a {kind.lower()} function: its kind is {found.kind}")
        return found

    def _unknown(self, name: str) -> AnalysisError:
        near = difflib.get_close_matches(name.upper(), self._functions, n=_SUGGESTIONS, cutoff=0.0)
        hint = f". Nearest names: {', '.join(near)}" if near else ""
        return AnalysisError(f"there is no function {name}{hint}")


def _same(state: Any) -> Any:
    return state


def _try(overload: Overload, given: Sequence[ArgumentType], casts: bool, spread: bool) -> _Match | None:
    signature = overload.signature
    position = signature.variadic
    if spread:
        if position is None:
            return None
        variadic = signature.parameters[position]
        whole = Parameter(variadic.name, ArrayOf(variadic.pattern))
        signature = Signature(
            (*signature.parameters[:position], whole, *signature.parameters[position + 1 :]), signature.result
        )
    parameters = expanded(signature, len(given))
    bound: Bindings = {}
    if parameters is None or not all(
        parameter.pattern.matches(kind, bound, casts) for parameter, kind in zip(parameters, given, strict=True)
    ):
        return None
    for name, test in overload.only.items():
        if name in bound and not test(bound[name]):
            return None
    types = tuple(parameter.pattern.concrete(bound, kind) for parameter, kind in zip(parameters, given, strict=True))
    return _Match(overload, bound, types, parameters, spread)


def _choose(function: Function, given: Sequence[ArgumentType], casts: bool) -> _Match:
    for allow in (False, True) if casts else (False,):
        found = [
            match
            for overload in function.overloads
            for spread in (False, True)
            if (match := _try(overload, given, allow, spread)) is not None
        ]
        if not found:
            continue
        best = max(each.rank for each in found)
        first, *others = [each for each in found if each.rank == best]
        if others and any(each.overload is not first.overload for each in others):
            raise AnalysisError(
                f"{function.key}{_listed(given)} is ambiguous: several forms fit after implicit casts."
                f"\nCast arguments to the types of one of:\n{_alternatives(function)}"
            )
        return first
    raise AnalysisError(f"there is no form {function.key}{_listed(given)}.\nThe forms are:\n{_alternatives(function)}")


def _listed(given: Sequence[ArgumentType]) -> str:
    return f"({', '.join('null' if each is None else str(each) for each in given)})"


def _alternatives(function: Function) -> str:
    return "\n".join(f"{function.key}({', '.join(map(str, each.signature.parameters))})" for each in function.overloads)


def _return_type(function: Function, match: _Match, optional: bool = False) -> Any:
    overload = match.overload
    if overload.returns is not None:
        return overload.returns(match.types)
    result = overload.signature.result
    found = result.concrete(match.bound, None) if result is not None else None
    if found is None and not optional:
        raise _untyped(function)
    return found


def _untyped(function: Function) -> AnalysisError:
    return AnalysisError(f"{function.key}: its return type cannot be found from NULL; cast an argument")


def _expected(match: _Match, given: Sequence[ArgumentType]) -> tuple[ArgumentType, ...]:
    return tuple(kind if kind is not None else each for kind, each in zip(match.types, given, strict=True))


def _lambda_types(
    function: Function, parameter: Parameter, given: ArgumentType, match: _Match
) -> tuple[SqlType, ...] | None:
    if not isinstance(given, LambdaShape) or not isinstance(parameter.pattern, LambdaOf):
        return None
    types = parameter.pattern.types(match.bound)
    known = tuple(each for each in types if each is not None)
    if len(known) != len(types):
        raise _untyped(function)
    return known


def _constant(function: Function, position: int, constants: Mapping[int, Any], texts: Sequence[str]) -> Any:
    if position in constants:
        return constants[position]
    was = f" is {texts[position]}" if position < len(texts) else ""
    raise AnalysisError(f"{function.key}: argument {position + 1}{was}: a literal is expected")


def _spread(call: Call, match: _Match) -> Call:
    """Return the call for one array in place of the variadic arguments."""
    position = match.overload.signature.variadic or 0

    def spread(*arguments: Any) -> Any:
        return call(*arguments[:position], *(arguments[position] or ()), *arguments[position + 1 :])

    return spread


def _info(function: Function, overload: Overload) -> SignatureInfo:
    arguments = tuple(
        ArgumentInfo(each.name, str(each.pattern), function.arguments[each.name], each.variadic)
        for each in overload.signature.parameters
    )
    result = overload.signature.result
    return SignatureInfo(arguments, str(result) if result else "DECIMAL", overload.description or function.description)


def registry_of(parts: Iterable[Iterable[Function]], environment: Environment | None = None) -> FunctionRegistry:
    """Return the registry of the functions of all parts."""
    return FunctionRegistry([each for part in parts for each in part], environment)
