"""Client quotas in the world of the controller: operators set and remove quotas, and the state must agree with a second
implementation of the rules over a plain table.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from broker_cy.controller import quota_ops
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import ClientQuotasChanged
from broker_cy.wire import messages
from tests.broker_cy.controller.acts import Act
from tests.sim.controller_authors import AUTHORS, author_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker_cy.metadata.authors import Author
    from broker_cy.metrics.events import Event
    from tests.sim.controller_world import World

NAMES = ("a", "b", None)
KEYS = ("producer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_KEY = "connection_creation_rate"
ENTITIES = (
    *({"user": name} for name in NAMES),
    *({"client-id": name} for name in NAMES),
    *({"user": one, "client-id": other} for one in NAMES for other in NAMES),
    *({"ip": name} for name in ("10.0.0.1", "::1", None)),
)
# Quotas that every controller rejects, because of a name, a combination, a key or a value.
WRONG = (
    ({"user": ""}, KEYS[0], 1.0),
    ({"ip": "10.0.0.1", "user": "a"}, IP_KEY, 1.0),
    ({"user": "a"}, IP_KEY, 1.0),
    ({"user": "a", "client-id": None}, "unknown", 1.0),
    ({"client-id": "b"}, KEYS[0], 0.5),
    ({"user": None}, KEYS[1], 0.0),
)

Names = dict[str, str | None]
Table = dict[tuple[frozenset[tuple[str, str | None]], str], float]


class Quotas:
    """`change` lets an operator change some; `committed` and `dropped` follow the log."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._draw = Random(f"quotas {seed}")
        self._table: Table = {}
        self._committed: Table = {}
        # The author of the newest uncommitted change of each quota.
        self._authors: dict[tuple[frozenset[tuple[str, str | None]], str], Author] = {}
        self._by = Random(f"authors of quotas {seed}")

    def is_due(self, chance: float) -> bool:
        return self._draw.random() < chance

    def commit(self, events: Iterable[Event]) -> None:
        """The events name each quota that a commit changed, and the author."""
        wanted = set()
        for key in self._table.keys() | self._committed.keys():
            before, after = self._committed.get(key), self._table.get(key)
            if before != after:
                wanted.add((*key, before, after, self._authors[key]))
        found = {
            (frozenset(each.entity.items()), each.key, _value(each.before), _value(each.after), author_of(event))
            for event in events
            if isinstance(event, ClientQuotasChanged)
            for each in event.quotas
        }
        assert found == wanted, f"the events say {found - wanted}, and should say {wanted - found}"
        self._committed = dict(self._table)
        self._authors.clear()

    def drop(self) -> None:
        self._table = dict(self._committed)
        self._authors.clear()

    def change(self) -> None:
        draw = self._draw
        request = messages.AlterClientQuotasRequest
        chosen: list[tuple[Names, list[tuple[str, float | None]]]] = []
        for names in draw.sample(ENTITIES, draw.randint(1, 3)):
            keys = (IP_KEY,) if "ip" in names else KEYS
            ops = [(key, draw.choice([None, 1.0, 2.0])) for key in draw.sample(keys, draw.randint(1, len(keys)))]
            chosen.append((dict(names), ops))
        if draw.random() < 0.3:
            wrong, key, value = draw.choice(WRONG)
            others = [(KEYS[2], 5.0)] if draw.random() < 0.5 else []
            chosen = [each for each in chosen if each[0] != wrong]
            chosen.insert(draw.randint(0, len(chosen)), (dict(wrong), [*others, (key, value)]))
        validates = draw.random() < 0.15
        entries = [
            request.EntryData(
                entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
                ops=[request.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
            )
            for names, ops in chosen
        ]
        by = self._by.choice(AUTHORS)
        operation = quota_ops.AlterClientQuotas(request(entries=entries, validate_only=validates), by)
        response = self._world.operate(Act("quotas", ()), operation)
        self._follow(chosen, response, validates, by)
        self.check()

    def _follow(
        self, chosen: list[tuple[Names, list[tuple[str, float | None]]]], response: Any, validates: bool, by: Author
    ) -> None:
        answers = {
            frozenset((part.entity_type, part.entity_name) for part in each.entity): each.error_code
            for each in response.entries
        }
        for names, ops in chosen:
            entity = frozenset(names.items())
            is_wrong = any(names == wrong and (key, value) in ops for wrong, key, value in WRONG)
            expected = ErrorCode.INVALID_REQUEST if is_wrong else ErrorCode.NONE
            assert answers[entity] == expected, f"{names} {ops} is answered with {answers[entity]}"
            if is_wrong or validates:
                continue
            for key, value in ops:
                if value != self._table.get((entity, key)):
                    self._authors[entity, key] = by
                if value is None:
                    self._table.pop((entity, key), None)
                else:
                    self._table[entity, key] = value

    def check(self) -> None:
        """The controller has, and a broker would describe, exactly the quotas that were set."""
        state = self._world.cluster.controller.state
        request = messages.DescribeClientQuotasRequest(components=[], strict=False)
        described: Table = {}
        for each in quota_ops.describe(state.quotas(), request).entries:
            entity = frozenset((part.entity_type, part.entity_name) for part in each.entity)
            for value in each.values:
                assert (entity, value.key) not in described, f"described twice: {each}"
                described[entity, value.key] = value.value
        assert described == self._table, f"the quotas are {described}, and were set to {self._table}"


def _value(text: str | None) -> float | None:
    return None if text is None else float(text)
