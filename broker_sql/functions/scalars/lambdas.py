"""Functions over collections with lambdas: TRANSFORM, FILTER, REDUCE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sql.functions.definitions import Category

LAMBDA = Category("LAMBDA")
_ARGUMENTS = {"array": "the array", "map": "the map"}
_transform = LAMBDA.scalar(
    "transform",
    "Each element of an array, or each key and value of a map, replaced by the result of a lambda.",
    **_ARGUMENTS,
    function="the lambda of an element",
    key_function="the lambda of key and value that returns the new key",
    value_function="the lambda of key and value that returns the new value",
)
_filter = LAMBDA.scalar(
    "filter",
    "The elements of an array, or the entries of a map, for which a lambda is true.",
    **_ARGUMENTS,
    predicate="the lambda that returns a BOOLEAN",
)
_reduce = LAMBDA.scalar(
    "reduce",
    "The last result of a lambda that takes its previous result, and an element of an array or an entry of a map.",
    **_ARGUMENTS,
    state="the first argument of the first call",
    function="the lambda of state and element, or of state, key and value",
)


@_transform("(array ARRAY<T>, function LAMBDA(T) R) ARRAY<R>")
def _(array: list[Any] | None, function: Callable[[Any], Any]) -> list[Any] | None:
    return None if array is None else [function(each) for each in array]


@_transform("(map MAP<K, V>, key_function LAMBDA(K, V) R, value_function LAMBDA(K, V) T) MAP<R, T>")
def _(
    entries: dict[Any, Any] | None, key_function: Callable[[Any, Any], Any], value_function: Callable[[Any, Any], Any]
) -> dict[Any, Any] | None:
    if entries is None:
        return None
    made: dict[Any, Any] = {}
    for key, value in entries.items():
        new = key_function(key, value)
        if new in made:
            raise ValueError(f"TRANSFORM: two entries have the key {new!r}")
        made[new] = value_function(key, value)
    return made


@_filter("(array ARRAY<T>, predicate LAMBDA(T) BOOLEAN) ARRAY<T>")
def _(array: list[Any] | None, predicate: Callable[[Any], Any]) -> list[Any] | None:
    return None if array is None else [each for each in array if predicate(each)]


@_filter("(map MAP<K, V>, predicate LAMBDA(K, V) BOOLEAN) MAP<K, V>")
def _(entries: dict[Any, Any] | None, predicate: Callable[[Any, Any], Any]) -> dict[Any, Any] | None:
    return None if entries is None else {key: value for key, value in entries.items() if predicate(key, value)}


@_reduce("(array ARRAY<T>, state S, function LAMBDA(S, T) S) S")
def _(array: list[Any] | None, state: Any, function: Callable[[Any, Any], Any]) -> Any:
    if array is None or state is None:
        return state
    for each in array:
        state = function(state, each)
    return state


@_reduce("(map MAP<K, V>, state S, function LAMBDA(S, K, V) S) S")
def _(entries: dict[Any, Any] | None, state: Any, function: Callable[[Any, Any, Any], Any]) -> Any:
    if entries is None or state is None:
        return state
    for key, value in entries.items():
        state = function(state, key, value)
    return state
