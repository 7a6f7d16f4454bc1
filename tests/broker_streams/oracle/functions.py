"""The functions of a spec: expressions in JSON on values that are str, int or None.

Expressions E: a variable ("key", "value", "other"), a number, or a list:

    ["text", "a"]               the text itself       ["text_of", E]       as text: 12, null, key@start/end
    ["concat", E, ...]          texts in a row        ["end", E, n]        the last n characters
    ["length", E]               of the text           ["hash", E, n]       a number below n
    ["bucket", E, n]            b0 to b(n-1)          ["add", E, E], ["subtract", E, E], ["max", E, E]
    ["if", C, E, E]                                   ["fail"]             raises
    null                        null

Conditions C: true, false, ["mod", E, n, rest], ["is_null", E], ["equal", E, E], ["not", C].

In arithmetic null is 0, a text is a number below 1,000, and sums are remainders of 1,000,000,007.
StreamsFunctions.java has the same in Java.
"""

from __future__ import annotations

from typing import Any, Final

from broker_streams.records import Windowed

_MOST: Final = 1_000_000_007

Expression = Any
Condition = Any


class AskedFailure(Exception):
    """The function was asked to fail."""


def text(value: Any) -> str:
    if isinstance(value, Windowed):
        return f"{text(value.key)}@{value.window.start_ms}/{value.window.end_ms}"
    return "null" if value is None else str(value)


def text_hash(value: Any) -> int:
    found = 0
    for each in text(value).encode():
        found = (found * 31 + each) & 0x7FFFFFFF
    return found


def _number(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else text_hash(value) % 1000


def _remainder(sum_: int) -> int:
    """Sums of sums stay small. The remainder has the sign of the sum, as in Java."""
    found = abs(sum_) % _MOST
    return found if sum_ >= 0 else -found


def evaluate(of: Expression, key: Any = None, value: Any = None, other: Any = None) -> Any:
    """Return the value of an expression."""
    if of is None or isinstance(of, int):
        return of
    if isinstance(of, str):
        return {"key": key, "value": value, "other": other}[of]
    name, *arguments = of
    match name:
        case "text":
            return arguments[0]
        case "if":
            chosen = arguments[1 if holds(arguments[0], key, value, other) else 2]
            return evaluate(chosen, key, value, other)
        case "fail":
            raise AskedFailure("fails as asked")
        case "concat":
            return "".join(text(evaluate(each, key, value, other)) for each in arguments)
    return _of_first(name, arguments, evaluate(arguments[0], key, value, other), (key, value, other))


def _of_first(name: str, arguments: list[Any], first: Any, variables: tuple[Any, Any, Any]) -> Any:
    match name:
        case "text_of":
            return text(first)
        case "end":
            return text(first)[max(0, len(text(first)) - arguments[1]) :]
        case "length":
            return len(text(first))
        case "hash":
            return text_hash(first) % arguments[1]
        case "bucket":
            return f"b{text_hash(first) % arguments[1]}"
        case "add":
            return _remainder(_number(first) + _number(evaluate(arguments[1], *variables)))
        case "subtract":
            return _remainder(_number(first) - _number(evaluate(arguments[1], *variables)))
        case "max":
            return max(_number(first), _number(evaluate(arguments[1], *variables)))
    raise ValueError(f"function {name}")


def holds(of: Condition, key: Any = None, value: Any = None, other: Any = None) -> bool:
    """Whether a condition holds."""
    if isinstance(of, bool):
        return of
    name, *arguments = of
    if name == "not":
        return not holds(arguments[0], key, value, other)
    first = evaluate(arguments[0], key, value, other)
    match name:
        case "mod":
            return bool(text_hash(first) % arguments[1] == arguments[2])
        case "is_null":
            return first is None
        case "equal":
            return text(first) == text(evaluate(arguments[1], key, value, other))
    raise ValueError(f"condition {name}")
