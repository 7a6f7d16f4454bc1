"""The settings of serdes with schemas, by the names of Confluent's clients (settings/settings.tsv)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker_registry.serdes.strategies import Strategy

URL: Final = "schema.registry.url"
_REGISTERS: Final = "auto.register.schemas"
_LATEST: Final = "use.latest.version"


class Options(NamedTuple):
    """`registers`: a schema that is new is registered; else it must be there. `uses_latest`: values are written, and
    read, by the newest version of their subject; `is_strict`: that must read what a serde's own schema writes.
    `checks_json`: values must be what their JSON schema allows.
    """

    registers: bool = True
    uses_latest: bool = False
    is_strict: bool = True
    normalizes: bool = False
    key_strategy: Strategy = Strategy.TOPIC_NAME
    value_strategy: Strategy = Strategy.TOPIC_NAME
    checks_json: bool = False

    @staticmethod
    def of(found: Mapping[str, Any]) -> Options:
        """`found` has the settings that were given, with their types. Raises ValueError: they exclude each other."""
        uses_latest = found.get(_LATEST, False)
        registers = found.get(_REGISTERS, not uses_latest)
        if registers and uses_latest:
            raise ValueError(f"{_REGISTERS} and {_LATEST} are both true: the schema of a value would be registered")
        return Options(
            registers,
            uses_latest,
            found.get("latest.compatibility.strict", True),
            found.get("normalize.schemas", False),
            _strategy(found, "key.subject.name.strategy"),
            _strategy(found, "value.subject.name.strategy"),
            found.get("json.fail.invalid.schema", False),
        )

    def strategy(self, *, is_key: bool) -> Strategy:
        return self.key_strategy if is_key else self.value_strategy


def _strategy(found: Mapping[str, Any], name: str) -> Strategy:
    given = found.get(name)
    if given is None:
        return Strategy.TOPIC_NAME
    try:
        return Strategy.of(given)
    except ValueError:
        allowed = ", ".join(f"{each.value}Strategy" for each in Strategy)
        raise ValueError(f"{name} is {given!r}; allowed are {allowed}") from None
