"""Pull queries for one key: a text that differs from an earlier one in the key only is not parsed and planned again.

    SELECT ... FROM table WHERE key = literal

The text before the literal, the kind of the literal and the settings of the request choose the plan. The first text is
planned like any other, and remembered only if its WHERE is exactly the key with a literal. Any command forgets all.

Bound: PLANS_MAX plans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from broker_sql.server.bound_serdes import bound_key_serde
from broker_sql.server.queries.pull import PullPlan
from broker_sql.statements import Query
from broker_sql.types import BIGINT, INTEGER, STRING

PLANS_MAX: Final = 1_000
_BITS: Final = {INTEGER: 31, BIGINT: 63}
_BY_KEY: Final = re.compile(r"(?P<head>[^;]*\bWHERE\s+[\w`\".]+\s*=\s*)(?P<literal>'(?:[^']|'')*'|-?\d+)\s*;?\s*", re.I)
Place = tuple[str, bool, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class _Known:
    """A plan without keys, and the key of a literal; None: the literal is not one of the key's type."""

    plan: PullPlan
    key_of: Callable[[str], bytes | None]


class ByKey:
    def __init__(self) -> None:
        self._known: dict[Place, _Known] = {}

    def forget(self) -> None:
        """The catalog or the settings of the server have changed."""
        self._known.clear()

    def find(self, text: str, properties: Mapping[str, Any]) -> PullPlan | None:
        """Return the plan of a text; None: it has to be planned."""
        if not self._known or (found := _BY_KEY.fullmatch(text)) is None:
            return None
        known = self._known.get(_place(found, properties))
        if known is None:
            return None
        key = known.key_of(found["literal"])
        return None if key is None else replace(known.plan, keys=(key,))

    def learn(self, text: str, properties: Mapping[str, Any], query: Query, plan: PullPlan, registry: Any) -> None:
        """Remember the plan of a text, if a later one may differ in the key only."""
        found, key = _BY_KEY.fullmatch(text), plan.source.schema.key
        where = query.where
        if found is None or plan.keys is None or len(key) != 1 or not isinstance(where, exp.EQ):
            return
        value = where.expression.this if isinstance(where.expression, exp.Neg) else where.expression
        is_text = found["literal"].startswith("'")
        fits = key[0].type == STRING if is_text else key[0].type in _BITS
        if not (isinstance(where.this, exp.Column) and isinstance(value, exp.Literal) and fits):
            return
        serialize = bound_key_serde(replace(plan.source, window=None), registry).serialize
        topic, bits = plan.source.topic, 0 if is_text else _BITS[key[0].type]  # type: ignore[index]

        def serialized(given: tuple[Any, ...]) -> bytes | None:
            return serialize(topic, given)  # type: ignore[no-any-return]  # bytes

        def key_of(literal: str) -> bytes | None:
            if is_text:
                return serialized((literal[1:-1].replace("''", "'"),))
            number = int(literal)
            if not -(1 << bits) <= number < 1 << bits:
                return None
            return serialized((number,))

        if len(self._known) >= PLANS_MAX:
            self._known.clear()
        # WHERE holds for all rows of the key, also in windows.
        self._known[_place(found, properties)] = _Known(replace(plan, where=None, keys=()), key_of)


def _place(found: re.Match[str], properties: Mapping[str, Any]) -> Place:
    settings = frozenset((name, str(value)) for name, value in properties.items())
    return found["head"], found["literal"].startswith("'"), settings
