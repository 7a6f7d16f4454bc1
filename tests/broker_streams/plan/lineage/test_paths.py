"""User functions with traced values: the columns that their results come from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from broker_streams import Windowed
from broker_streams.plan.lineage.columns import Column, Use
from broker_streams.plan.lineage.paths import Found, trace
from broker_streams.plan.lineage.shapes import Shape, of_column

COUNTRIES = {"1": "ch"}


def traced(call: Callable[..., Any], *names: str) -> Found:
    return trace(call, {name: of_column(Column("t", name)) for name in names or ("value",)})


def shown(shape: Shape) -> dict[str, list[str]]:
    """The origins of each column as texts: "value.price", "value.price TRANSFORMATION"."""
    return {
        ".".join(each.column.path): [
            ".".join((one.column.part, *one.column.path)) + ("" if one.use is Use.IDENTITY else f" {one.use.value}")
            for one in each.origins
        ]
        for each in shape.columns("t", "out")
    }


def add_total(order: Any) -> Any:
    copy = dict(order)
    copy["total"] = copy["price"] * copy["count"]
    return copy


def change(order: Any) -> Any:
    order["total"] = order.pop("price")
    order.update(seen=1, again=order["at"])
    return order


def add_item(order: Any, aggregate: Any) -> Any:
    aggregate["items"].append(order["item"])
    return aggregate


def refuse_negative(order: Any) -> Any:
    if order["price"] < 0:
        raise ValueError("a negative price")
    return order["name"]


def unpack(order: Any) -> Any:
    first, _ = order["pair"]
    return {"x": first}


CASES: dict[str, tuple[Callable[..., Any], dict[str, list[str]]]] = {
    "a field": (lambda v: v["a"], {"": ["value.a"]}),
    "an attribute": (lambda v: v.a.b, {"": ["value.a.b"]}),
    "an operator": (lambda v: 2 * v["a"] + v["b"], {"": ["value.a TRANSFORMATION", "value.b TRANSFORMATION"]}),
    "a record": (lambda v: {"x": v["a"], "y": {"z": v["b"]}}, {"x": ["value.a"], "y.z": ["value.b"]}),
    "a copy with a change": (lambda v: {**v, "x": v["a"]}, {"x": ["value.a"], "*": ["value.*"]}),
    "a union of records": (lambda v: v | {"x": v["a"]}, {"x": ["value.a"], "*": ["value.*"]}),
    "a copy by dict": (
        add_total,
        {"total": ["value.count TRANSFORMATION", "value.price TRANSFORMATION"], "*": ["value.*"]},
    ),
    "a record that is changed": (
        change,
        {"total": ["value.price"], "seen": [], "again": ["value.at"], "*": ["value.*"]},
    ),
    "a comprehension": (lambda v: {k: x for k, x in v.items() if k != "a"}, {"": ["value"]}),
    "a text": (lambda v: f"{v['a']}-{v['b']:>4}", {"": ["value.a TRANSFORMATION", "value.b TRANSFORMATION"]}),
    "a method of a text": (lambda v: v["a"].strip().lower(), {"": ["value.a TRANSFORMATION"]}),
    "a branch": (
        lambda v: {"x": v["a"], "y": "big" if v["b"] > 9 else "small"},
        {"x": ["value.a"], "y": ["value.b CONDITIONAL"]},
    ),
    "a branch with fields": (
        lambda v: v["a"] if v["c"] == 1 or v["d"] else v["b"],
        {"": ["value.a", "value.b", "value.c CONDITIONAL", "value.d CONDITIONAL"]},
    ),
    "a default": (lambda v: v.get("a", v["b"]), {"": ["value.a", "value.b"]}),
    "a test for None": (
        lambda v: v["a"] if v["c"] is None else v["b"],
        {"": ["value.a", "value.b", "value.c CONDITIONAL"]},
    ),
    "a test of a list": (lambda v: v["a"] if v["b"] in ("x", "y") else 0, {"": ["value.a", "value.b CONDITIONAL"]}),
    "elements of a list": (lambda v: sum(each["n"] for each in v["items"]), {"": ["value.items.n TRANSFORMATION"]}),
    "the first element": (lambda v: v["items"][0]["n"], {"": ["value.items.n"]}),
    "unpacked": (unpack, {"x": ["value.pair"]}),
    "a plain number": (lambda v: {"x": math.sqrt(int(v["a"]))}, {"x": ["value.a TRANSFORMATION"]}),
    "a constant": (lambda v: 7, {"": []}),
    "None": (lambda v: None, {"": []}),
    "an error on purpose": (refuse_negative, {"": ["value.name"]}),
}


@pytest.mark.parametrize("name", CASES)
def test_uses_are_noted(name: str) -> None:
    """If this fails, the lineage of a function names wrong columns."""
    call, wanted = CASES[name]
    found = traced(call)
    assert found.reason == ""
    (shape,) = found.parts
    assert shown(shape) == wanted


def test_several_arguments_are_told_apart() -> None:
    """If this fails, a join's columns come from the wrong side."""
    found = traced(lambda left, right: {"a": left["a"], "b": right and right["b"]}, "left", "right")
    assert shown(found.parts[0]) == {"a": ["left.a"], "b": ["right.b", "right CONDITIONAL"]}
    found = traced(add_item, "value", "aggregate")
    assert shown(found.parts[0]) == {"items": ["aggregate.items", "value.item"], "*": ["aggregate.*"]}


def test_a_windowed_key_has_its_parts() -> None:
    """If this fails, the key of a windowed table cannot be told apart from its window."""
    key = Shape(fields={"key": of_column(Column("t", "key")), "window": of_column(Column("t", "timestamp"))})
    found = trace(lambda key, value: Windowed(key.key, key.window.start_ms), {"key": key, "value": Shape()})
    assert shown(found.parts[0]) == {"key": ["key"], "window": ["timestamp.start_ms"]}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda v: json.dumps(v), "TypeError"),
        (lambda v: COUNTRIES.get(v["a"]), "it looks a value up in a set or dict"),
        (lambda v: v["a"] if isinstance(v["a"], str) else v["b"], "it asks for the type of a value"),
        (lambda v: [v[f"f{at}"] for at in range(300)], "it has more than 256 paths"),
    ],
)
def test_a_function_that_cannot_be_traced_may_use_all(call: Callable[..., Any], reason: str) -> None:
    """If this fails, a column is missing in the lineage, and nothing says so."""
    found = traced(call)
    assert found.reason.startswith(reason)
    (shape,) = found.parts
    assert shape.any_opaque()
    assert "value TRANSFORMATION" in shown(shape)[""]


def forever(value: Any) -> Any:
    while value["a"]:
        value = value["b"]
    return value


def test_a_loop_has_an_end() -> None:
    """If this fails, describe --lineage runs forever."""
    assert traced(forever).reason == "it makes too many comparisons"


VALUES = {"a": 5, "b": 7, "c": 1, "d": 0, "at": 3, "price": 4, "count": 2, "name": "n", "items": [{"n": 1}]}
CHANGES = {"a": (6, None, 0), "b": (99, -1), "c": (2, None), "d": (1,), "price": (8,), "count": (3,), "name": ("m",)}
CHANGES["items"] = ([{"n": 9}],)  # type: ignore[assignment]


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("an attribute", "unpacked")])
def test_a_changed_input_changes_only_columns_that_name_it(name: str) -> None:
    """The slow twin: the function itself, with one input changed. If this fails, lineage lacks a column."""
    call, _ = CASES[name]
    (shape,) = traced(call).parts
    columns = {each.column.path: each.origins for each in shape.columns("t", "out")}

    def run(**changed: Any) -> dict[tuple[str, ...], Any]:
        try:
            return dict(flat(call({**VALUES, **changed})))
        except (TypeError, AttributeError):
            return {}

    before = run()
    for field, others in CHANGES.items():
        for other in others:
            after = run(**{field: other})
            for path in (before.keys() | after.keys()) if before and after else ():
                if before.get(path) != after.get(path):
                    origins = columns.get(path) or columns.get(("*",)) or columns[()]
                    named = {each.column.path[:1] for each in origins}
                    assert named & {(field,), ("*",), ()}, (field, path)


def flat(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, dict):
        return [(path, value)]
    return [each for name, one in value.items() for each in flat(one, (*path, name))]
