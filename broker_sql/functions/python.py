"""Functions that users write in Python: `CREATE FUNCTION ... LANGUAGE PYTHON AS $$ ... $$`.

The text is an expression, the body of a function with the names of the arguments, or a module with a function of the
same name, which may import and keep state of the process:

    x * 2                      return x * 2                  import re
                                                             def doubled(x):
                                                                 return x * 2

It runs in the process of the query, with its rights. An exception, and a value that is not of the return type, is an
error of the record: the result is NULL and the error is in the log.
"""

from __future__ import annotations

import ast
import keyword
import textwrap
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as Number
from typing import Any, Final

from broker_sql import types
from broker_sql.errors import AnalysisError
from broker_sql.functions.calls import Call
from broker_sql.functions.definitions import Function, Overload, Resolved
from broker_sql.functions.patterns import Exactly, Parameter, Signature
from broker_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    MAX_PRECISION,
    STRING,
    TIME,
    TIMESTAMP,
    SqlType,
)

CATEGORY: Final = "PYTHON"
_RANGES: Final[dict[SqlType, tuple[int, int]]] = {
    INTEGER: (-(1 << 31), (1 << 31) - 1),
    BIGINT: (-(1 << 63), (1 << 63) - 1),
    TIMESTAMP: (-(1 << 63), (1 << 63) - 1),
    DATE: (-(1 << 31), (1 << 31) - 1),
    TIME: (0, 86_399_999),
}
_CLASSES: Final[dict[SqlType, type]] = {BOOLEAN: bool, STRING: str, BYTES: bytes}
_EXACT: Final = Context(prec=2 * MAX_PRECISION)
# Statements of a text that is a module, rather than the body of a function.
_OF_MODULES: Final = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
_SHOWN: Final = 80  # characters of a wrong value in an error


def python_function(
    name: str, parameters: Sequence[tuple[str, SqlType]], returns: SqlType, text: str, *, author: str = ""
) -> Function:
    """Return the function for `FunctionRegistry.extended`. Raises AnalysisError: the text is not Python."""
    call = _compiled(name, [each for each, _ in parameters], text)
    check = checker(returns)

    def checked(*arguments: Any) -> Any:
        try:
            return check(call(*arguments))
        except _Wrong as error:
            raise ValueError(f"{name} returned {error}: {returns} is expected") from None

    made = Function(
        name, "SCALAR", CATEGORY, "A function in Python.", {each: str(kind) for each, kind in parameters}, author
    )
    signature = Signature(tuple(Parameter(each, Exactly(kind)) for each, kind in parameters), Exactly(returns))
    made.overloads.append(Overload(signature, _constant(checked)))
    return made


def _constant(call: Call) -> Callable[[Resolved], Call]:
    return lambda _resolved: call


def _compiled(name: str, names: Sequence[str], text: str) -> Call:
    for each in names:
        if not each.isidentifier() or keyword.iskeyword(each) or names.count(each) > 1:
            raise AnalysisError(f"function {name}: argument {each!r}: a name of Python, only once, is expected")
    text = textwrap.dedent(text).strip()
    space: dict[str, Any] = {"__name__": f"broker_sql.user.{name}"}
    try:
        source, made = _source(name, names, text)
        exec(compile(source, f"<function {name}>", "exec"), space)
    except SyntaxError as error:
        raise AnalysisError(f"function {name}: {error.msg}: {(error.text or '').strip()!r}") from None
    except Exception as error:
        raise AnalysisError(f"function {name}: {type(error).__name__}: {error}") from None
    found: Call = space[made]
    return found


def _source(name: str, names: Sequence[str], text: str) -> tuple[str, str]:
    """Return a module, and the name of the function in it. Raises SyntaxError."""
    try:
        ast.parse(text, mode="eval")
        text = f"return ({text}\n)"
    except SyntaxError:
        pass
    body = f"def function({', '.join(names)}):\n{textwrap.indent(text, '    ')}\n"
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return body, "function"
    defined = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    made = next((each for each in defined if each.upper() == name.upper()), None)
    if made is not None:
        return text, made
    if defined and all(isinstance(each, _OF_MODULES) for each in tree.body):
        raise SyntaxError(f"the text defines {', '.join(defined)}, and not {name.lower()}")
    return body, "function"


class _Wrong(Exception):
    """The value is not of the type; the text shows the value."""


def _shown(value: Any) -> _Wrong:
    text = repr(value)
    return _Wrong(f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '...'} ({type(value).__name__})")


def checker(kind: SqlType) -> Callable[[Any], Any]:
    """Return the function that returns a value of the type, or raises an error that names the value."""
    check = _checker(kind)
    return lambda value: None if value is None else check(value)


def _checker(kind: SqlType) -> Callable[[Any], Any]:
    match kind:
        case types.Decimal(precision, scale):
            return lambda value: _decimal(value, precision, scale)
        case types.Array(element):
            each = checker(element)
            return lambda value: [each(one) for one in _instance(value, (list, tuple))]
        case types.Map(key, inner):
            of_key, of_value = checker(key), checker(inner)
            return lambda value: {of_key(one): of_value(other) for one, other in _instance(value, dict).items()}
        case types.Struct(fields):
            return _struct_checker(fields)
    if kind in _RANGES:
        low, high = _RANGES[kind]
        return lambda value: _whole(value, low, high)
    if kind == DOUBLE:
        return _double
    wanted = _CLASSES[kind]
    return lambda value: _instance(value, wanted)


def _struct_checker(fields: tuple[tuple[str, SqlType], ...]) -> Callable[[Any], Any]:
    checks = [(name, checker(inner)) for name, inner in fields]
    known = {name for name, _ in fields}

    def check(value: Any) -> dict[str, Any]:
        if _instance(value, dict).keys() - known:
            raise _shown(value)
        return {name: of(value.get(name)) for name, of in checks}

    return check


def _instance(value: Any, wanted: type | tuple[type, ...]) -> Any:
    if not isinstance(value, wanted):
        raise _shown(value)
    return value


def _whole(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _shown(value)
    return value


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _shown(value)
    return float(value)


def _decimal(value: Any, precision: int, scale: int) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | Number):
        raise _shown(value)
    try:
        found = Number(value).quantize(Number((0, (1,), -scale)), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:
        raise _shown(value) from None
    if abs(found) >= Number((0, (1,), precision - scale)):
        raise _shown(value)
    return found
