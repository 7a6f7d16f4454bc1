"""Makes one random spec call by call, with the types of keys and values, so that Kafka takes it.

All serdes are stated where Kafka would fall back on a default, as its rules for that depend on the overload.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

STRING = "string"
LONG = "long"
TYPES = (STRING, LONG)


@dataclass(frozen=True)
class Made:
    """The result of a call: `kind` is stream, table, global, group, grouped-table, cogroup or windowed. `window` is
    the kind of the windows of its keys.
    """

    id: str
    kind: str
    key: str
    value: str
    window: str | None = None


class Maker:
    """`config` and `inputs` belong to the spec that `spec` returns."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.calls: list[dict[str, Any]] = []
        self.config: dict[str, str] = {}
        self.topics: dict[str, tuple[str, str]] = {}
        self.inputs: list[dict[str, Any]] = []
        # Stores drop rows in steps of a minute: in some specs times are long enough for that.
        self.scale = 1000 if self.chance(0.2) else 1
        self._count = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def ms(self, *choices: int) -> int:
        """One of several durations, in the scale of the spec."""
        return self.random.choice(choices) * self.scale

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def call(self, method: str, on: Made | None, result: Made | None = None, /, **options: Any) -> Made:
        """Add a call; options of None are left out. Returns `result` with the id of the call."""
        found = self.new("r")
        call: dict[str, Any] = {"call": method, "id": found}
        if on is not None:
            call["on"] = on.id
        self.calls.append(call | {key: value for key, value in options.items() if value is not None})
        return replace(result or Made("", "none", "", ""), id=found)

    def name(self, share: float = 0.15) -> str | None:
        return self.new("name-") if self.chance(share) else None

    def type(self) -> str:
        return self.random.choice(TYPES)

    # Functions

    def condition(self, variables: Sequence[Any], nulls: bool = True) -> Any:
        first = self.random.choice(variables)
        if nulls and self.chance(0.1):
            return ["not", ["is_null", first]]
        divisor = self.random.choice((2, 3, 4))
        found = ["mod", first, divisor, self.random.randrange(divisor)]
        return ["not", found] if self.chance(0.5) else found

    def expression(self, type_: str, variables: Sequence[Any], nulls: float = 0.1) -> Any:
        """A value of a type; in a share of `nulls` the function is null for some values."""
        one, other = self.random.choice(variables), self.random.choice(variables)
        choices = (
            (["end", ["concat", one, ["text", "+"], other], 8], ["bucket", one, 3], ["text_of", one])
            if type_ == STRING
            else (["length", one], ["hash", one, 7], ["add", one, other], ["max", one, other], ["subtract", one, 1])
        )
        found = self.random.choice(choices)
        if self.chance(nulls):
            return ["if", ["mod", one, self.random.choice((3, 4)), 0], None, found]
        return found

    # Serdes and stores

    def materialized(self, made: Made, share: float = 0.6, windowed: bool = False) -> dict[str, Any] | None:
        """Options of a store whose rows have the types of `made`; None in a share."""
        if not self.chance(share):
            return None
        found: dict[str, Any] = {"key": made.key, "value": made.value}
        if self.chance(0.5):
            found["name"] = self.new("store-")
        if self.chance(0.3):
            found["caching"] = self.chance(0.5)
        if self.chance(0.15):
            found["logging"] = False
        if self.chance(0.3):
            found["kind"] = "memory"
        if windowed and self.chance(0.2):
            found["retention_ms"] = self.ms(100, 200)
        return found

    def required(self, made: Made, windowed: bool = False) -> dict[str, Any]:
        """As `materialized`, always with serdes."""
        return self.materialized(made, 1.0, windowed) or {}

    # Sources and sinks

    def stream(self, key: str | None = None, value: str | None = None) -> Made:
        topic, made = self._topic("stream", key, value)
        # Some times are negative: such records are dropped.
        timestamp = ["subtract", "value", 1] if made.value == LONG and self.chance(0.05) else None
        options = {"topic": topic, "key": made.key, "value": made.value, "name": self.name(), "timestamp": timestamp}
        return self.call("stream", None, made, **options)

    def table(self, key: str | None = None, value: str | None = None, versioned: bool = False) -> Made:
        topic, made = self._topic("table", key, value)
        store: dict[str, Any] | None = self.materialized(made, 0.4)
        if versioned:
            history = self.ms(20, 60, 100_000)
            store = {"name": self.new("store-"), "kind": "versioned", "history_ms": history}
            store |= {"key": made.key, "value": made.value}
        options = {"topic": topic, "key": made.key, "value": made.value, "name": self.name()}
        return self.call("table", None, made, materialized=store, **options)

    def global_table(self, key: str | None = None, value: str | None = None) -> Made:
        topic, made = self._topic("global", key, value)
        store = self.materialized(made, 0.4)
        if store is not None:
            # Without a name, Kafka fails. It has no changelog for the store, and warns.
            store.setdefault("name", self.new("store-"))
            store.pop("logging", None)
        return self.call("global_table", None, made, topic=topic, key=made.key, value=made.value, materialized=store)

    def _topic(self, kind: str, key: str | None, value: str | None) -> tuple[str, Made]:
        made = Made("", kind, key or self.type(), value or self.type())
        topic = self.new("in-")
        self.topics[topic] = (made.key, made.value)
        return topic, made

    def to(self, made: Made) -> None:
        """Write a stream or a table to a topic of its own."""
        if made.kind == "table":
            made = self.call("to_stream", made, replace(made, kind="stream"), name=self.name())
        if made.window and self.chance(0.5):
            made = self.call("select_key", made, replace(made, key=STRING, window=None), to=["text_of", "key"])
        # A windowed key keeps the serde of its table.
        serdes = {} if made.window else {"key": made.key, "value": made.value}
        self.call("to", made, topic=self.new("out-"), name=self.name(), **serdes)

    # Input

    def _value(self, type_: str) -> Any:
        if type_ == LONG:
            return self.random.randrange(40)
        return self.random.choice(("x", "y", "apple", "pear", "", "\u00fc")) + str(self.random.randrange(5))

    def fill(self, count: int, advances: float = 0.0, late_ms: int = 40, jump_ms: int = 150) -> None:
        """Add inputs: times mostly rise, some are late, some leap ahead."""
        now = self.random.choice((0, 100, 1000))
        keys: dict[str, list[Any]] = {STRING: ["a", "b", "cc", "d"], LONG: [0, 1, 2, 300]}
        names = list(self.topics)
        for _ in range(count):
            if self.chance(advances):
                self.inputs.append({"advance_ms": self.ms(1, 5, 10, 50)})
                continue
            topic = self.random.choice(names)
            key, value = self.topics[topic]
            now += jump_ms * self.scale if self.chance(0.05) else self.ms(0, 1, 3, 10)
            at = max(0, now - self.random.randrange(late_ms) * self.scale) if self.chance(0.25) else now
            found: dict[str, Any] = {"topic": topic, "key": None, "value": None, "at": at}
            if not self.chance(0.04):
                found["key"] = self.random.choice(keys[key])
            if not self.chance(0.12):
                found["value"] = self._value(value)
            if self.chance(0.1):
                found["headers"] = [["h", self.random.choice(("01", "", None))]]
            self.inputs.append(found)

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = {"calls": self.calls, "inputs": self.inputs}
        return found | ({"config": self.config} if self.config else {})
