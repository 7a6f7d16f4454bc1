"""The calls of a spec on our DSL (spec.py has the table)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_streams import (
    LONG,
    STRING,
    EmitStrategy,
    JoinWindows,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Store,
    StoreKind,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from tests.broker_streams.oracle.functions import evaluate, holds
from tests.broker_streams.oracle.our_processor import Transformer, supplier

Call = Mapping[str, Any]

_SERDES: Final = {None: None, "string": STRING, "long": LONG}


def serde(name: str | None) -> Any:
    return _SERDES[name]


def _method(on: Any, call: str, **options: Any) -> Callable[..., Any]:
    """A method with options; those of None are left out."""
    return functools.partial(getattr(on, call), **{key: value for key, value in options.items() if value is not None})


def _condition(of: Any) -> Callable[[Any, Any], bool]:
    return lambda key, value: holds(of, key, value)


def _mapper(of: Any) -> Callable[[Any, Any], Any]:
    return lambda key, value: evaluate(of, key, value)


def _pair(of: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    return lambda key, value: (evaluate(of[0], key, value), evaluate(of[1], key, value))


def _pairs(of: Any) -> Callable[[Any, Any], list[tuple[Any, Any]]]:
    def pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
        chosen = [each for each in of if len(each) < 3 or holds(each[2], key, value)]
        return [(evaluate(each[0], key, value), evaluate(each[1], key, value)) for each in chosen]

    return pairs


def _of_value(of: Any, with_key: bool, several: bool = False) -> Callable[..., Any]:
    """A mapper of values: of one value, or of a list of them."""

    def mapped(key: Any, value: Any) -> Any:
        return [evaluate(each, key, value) for each in of] if several else evaluate(of, key, value)

    return mapped if with_key else lambda value: mapped(None, value)


def _of_three(of: Any) -> Callable[[Any, Any, Any], Any]:
    return lambda key, value, other: evaluate(of, key, value, other)


def _of_two(of: Any) -> Callable[[Any, Any], Any]:
    return lambda value, other: evaluate(of, None, value, other)


def _initializer(call: Call) -> Callable[[], Any]:
    return lambda: evaluate(call.get("initial"))


def materialized(call: Call) -> Any:
    of = call.get("materialized")
    if of is None:
        return None
    kind = of.get("kind", "persistent")
    options: dict[str, Any] = {
        "name": of.get("name"),
        "key": serde(of.get("key")),
        "value": serde(of.get("value")),
        "retention": of.get("retention_ms"),
        "history": of["history_ms"] if kind == "versioned" else None,
        "in_memory": kind == "memory" or None,
        "caching": of.get("caching"),
        "logging": of.get("logging"),
    }
    return Materialized(**{key: value for key, value in options.items() if value is not None})


def _windows(of: Mapping[str, Any]) -> Any:
    grace = of.get("grace_ms", 0)
    match of["kind"]:
        case "sliding":
            return SlidingWindows.of(of["difference_ms"]).grace(grace)
        case "session":
            return SessionWindows.of(of["gap_ms"]).grace(grace)
        case "unlimited":
            return UnlimitedWindows.of().start_on(of.get("start_ms", 0))
    found = TimeWindows.of(of["size_ms"]).grace(grace)
    return found.advance_by(of["advance_ms"]) if "advance_ms" in of else found


class OurCalls:
    """Makes the calls of a spec one by one; `builder` has their topology."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self._made: dict[str, Any] = {}

    def make(self, call: Call) -> None:
        """Raises ValueError: the call is wrong."""
        on = self._made[call["on"]] if "on" in call else self.builder
        made: Any
        if on is self.builder:
            made = self._on_builder(call)
        elif isinstance(on, KStream):
            made = self._on_stream(on, call)
        elif isinstance(on, KTable):
            made = self._on_table(on, call)
        else:
            made = self._on_group(on, call)
        if "id" in call:
            self._made[call["id"]] = made

    def _on_builder(self, call: Call) -> Any:
        name = call["call"]
        if name == "add_state_store":
            return self.builder.add_state_store(_store(call))
        options = {"key": serde(call.get("key")), "value": serde(call.get("value")), "name": call.get("name")}
        if name != "stream":
            method = _method(self.builder, name, materialized=materialized(call), **options)
            return method(call["topic"])
        if "timestamp" in call:
            options["timestamp_extractor"] = _timestamp(call["timestamp"])
        topics = call.get("topics") or call.get("topic") or re.compile(call["pattern"])
        return _method(self.builder, name, **options)(topics)

    def _on_stream(self, on: Any, call: Call) -> Any:
        name, to = call["call"], call.get("to")
        with_key = call.get("with_key", False)
        named = {"name": call.get("name")}
        serdes = {"key": serde(call.get("key")), "value": serde(call.get("value"))}
        match name:
            case "filter" | "filter_not":
                return _method(on, name, **named)(_condition(call["predicate"]))
            case "map":
                return _method(on, name, **named)(_pair(to))
            case "flat_map":
                return _method(on, name, **named)(_pairs(to))
            case "map_values" | "flat_map_values":
                mapper = _of_value(to, with_key, name == "flat_map_values")
                return _method(on, name, with_key=with_key, **named)(mapper)
            case "select_key":
                return _method(on, name, **named)(_mapper(to))
            case "peek" | "foreach":
                return _method(on, name, **named)(lambda key, value: None)
            case "merge":
                return _method(on, name, **named)(self._made[call["with"]])
            case "split":
                return self._split(on, call)
            case "repartition":
                return _method(on, name, partitions=call.get("partitions"), **serdes, **named)()
            case "to":
                topic = call.get("topic") or _topic_of(call["topic_of"])
                return _method(on, name, **serdes, **named)(topic)
            case "to_table":
                return _method(on, name, materialized=materialized(call), **named)()
            case "group_by":
                return _method(on, name, **serdes, **named)(_mapper(to))
            case "group_by_key":
                return _method(on, name, **serdes, **named)()
            case "process" | "process_values":
                return _method(on, name, **named)(supplier(call), *call["stores"])
        return self._join(on, call)

    def _split(self, on: Any, call: Call) -> None:
        found = _method(on, "split", name=call.get("name"))()
        ids = []
        for each in call["branches"]:
            found.branch(_condition(each["predicate"]), name=each.get("name"))
            ids.append(each["id"])
        default = call.get("default")
        streams = found.default_branch(name=default.get("name")) if default else found.no_default_branch()
        if default:
            ids.append(default["id"])
        self._made |= dict(zip(ids, streams.values(), strict=True))

    def _join(self, on: Any, call: Call) -> Any:
        name, other = call["call"], self._made[call["with"]]
        joiner = _of_three(call.get("joiner"))
        options: dict[str, Any] = {"name": call.get("name"), "with_key": True}
        if "select" in call:
            return _method(on, name, **options)(other, _mapper(call["select"]), joiner)
        options |= {"key": serde(call.get("key")), "value": serde(call.get("left"))}
        if "windows" not in call:
            return _method(on, name, grace=call.get("grace_ms"), **options)(other, joiner)
        of = call["windows"]
        before, after = of.get("before_ms", 0), of.get("after_ms", 0)
        windows = JoinWindows.of(max(before, after)).grace(of.get("grace_ms", 0)).before(before).after(after)
        options |= {"other_value": serde(call.get("right")), "store": call.get("store"), "logging": call.get("logging")}
        return _method(on, name, **options)(other, joiner, windows)

    def _on_table(self, on: Any, call: Call) -> Any:
        name, to = call["call"], call.get("to")
        named = {"name": call.get("name")}
        stored = named | {"materialized": materialized(call)}
        match name:
            case "filter" | "filter_not":
                return _method(on, name, **stored)(_condition(call["predicate"]))
            case "map_values":
                return _method(on, name, with_key=True, **stored)(_of_value(to, True))
            case "transform_values":
                return _method(on, name, **stored)(lambda: Transformer(to))
            case "to_stream":
                return _method(on, name, **named)(*([_mapper(to)] if to is not None else []))
            case "group_by":
                serdes = {"key": serde(call.get("key")), "value": serde(call.get("value"))}
                return _method(on, name, **serdes, **named)(_pair(to))
            case "suppress":
                return _method(on, name)(_suppressed(call))
        other, joiner = self._made[call["with"]], _of_two(call.get("joiner"))
        if "foreign_key" in call:
            select = _mapper(call["foreign_key"])
            return _method(on, name, foreign_key=select, with_key=True, **stored)(other, joiner)
        return _method(on, name, **stored)(other, joiner)

    def _on_group(self, on: Any, call: Call) -> Any:
        name = call["call"]
        stored = {"name": call.get("name"), "materialized": materialized(call)}
        match name:
            case "windowed_by":
                return _method(on, name)(_windows(call["windows"]))
            case "emit_strategy":
                return _method(on, name)(EmitStrategy[call["strategy"].upper()])
            case "cogroup":
                groups = [self._made[call["with"]]] if "with" in call else []
                return _method(on, name)(*groups, _of_three(call["aggregator"]))
            case "count":
                return _method(on, name, **stored)()
            case "reduce":
                fields = ("reducer", "subtractor") if isinstance(on, KGroupedTable) else ("reducer",)
                return _method(on, name, **stored)(*(_of_two(call.get(each)) for each in fields))
        parts = [_of_three(call[each]) for each in ("aggregator", "subtractor", "merger") if each in call]
        return _method(on, name, **stored)(_initializer(call), *parts)


def _timestamp(of: Any) -> Callable[[Any, int], Any]:
    return lambda record, last: evaluate(of, record.key, record.value, last)


def _topic_of(of: Any) -> Callable[[Any, Any, Any], str]:
    return lambda key, value, context: str(evaluate(of, key, value))


def _suppressed(call: Call) -> Any:
    bounds = {each: call.get(each) for each in ("max_records", "max_bytes", "name", "logging")}
    options = {key: value for key, value in bounds.items() if value is not None}
    if call["until"] == "window_closes":
        return Suppressed.until_window_closes(**options)
    when_full = "shut_down" if call.get("full") == "shutdown" else "emit"
    return Suppressed.until_time_limit(call["limit_ms"], when_full=when_full, **options)


def _store(call: Call) -> Any:
    kind = next(each for each in StoreKind if each.value == call["kind"])
    options = {"persistent", "caching", "logging", "retention_ms", "window_ms", "retain_duplicates", "history_ms"}
    return Store(
        call["name"],
        kind,
        serde(call.get("key")),
        serde(call.get("value")),
        **{key: value for key, value in call.items() if key in options},
    )
