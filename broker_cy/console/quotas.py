"""Quotas as rows: the set quotas, those that apply to a client, and the use by clients."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Final

from broker_cy.admin.quota_effect import ANONYMOUS, Effect, effects_on_address, effects_on_client
from broker_cy.admin.quotas import Entity, QuotaEntry
from broker_cy.console.values import parse_bytes
from broker_cy.core.classes import dataclass
from broker_cy.metrics.events import entity_text
from broker_cy.metrics.sample import Sample
from broker_cy.reporting.numbers import count, size

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
CLIENT_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
KEYS: Final = (*CLIENT_KEYS, CONNECTION_CREATION_RATE)
# As `broker-cy quotas` names it.
DEFAULT: Final = "default"


def parse_quota(key: str, text: str) -> float:
    """Parse the value of a quota: bytes may have a unit. Raises ValueError."""
    if key not in KEYS:
        raise ValueError(f"{key!r} is no quota: allowed are {', '.join(KEYS)}")
    if key.endswith("_byte_rate"):
        return float(parse_bytes(text))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number")
    return value


def shown_quota(key: str, value: float) -> str:
    """A value with its unit: `10.0 MiB/s`, `20%`, `5/s`."""
    if key.endswith("_byte_rate"):
        return f"{size(value)}/s"
    return f"{value:.6g}%" if key == REQUEST_PERCENTAGE else f"{value:.6g}/s"


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota of one entity."""

    entity: Entity
    key: str
    value: float

    @property
    def id(self) -> str:
        """Its identity, as JSON because names may contain any character."""
        return json.dumps([*sorted(self.entity.items()), self.key], ensure_ascii=False)

    @property
    def whose(self) -> str:
        return entity_text(self.entity)

    def __str__(self) -> str:
        return f"{self.key} of {self.whose}"


def quota_rows(entries: Iterable[QuotaEntry]) -> list[QuotaRow]:
    return [QuotaRow(entry.entity, key, value) for entry in entries for key, value in entry.values.items()]


def effect_lines(entries: Sequence[QuotaEntry], user: str, client_id: str, ip: str) -> list[str]:
    """The quotas that apply to a user with a client id, and to an address, if given: one line each."""
    found: list[Effect] = []
    asked = []
    if user or client_id:
        named = user or ANONYMOUS
        found += effects_on_client(entries, named, client_id)
        asked.append(f"user {named}" + (f" with client id {client_id}" if client_id else " without a client id"))
    if ip:
        found += effects_on_address(entries, ip)
        asked.append(f"address {ip}")
    whose = ", ".join(asked)
    if not found:
        return [f"no quota applies to {whose}"]
    lines = [f"{whose}: {count(len(found))} of {count(len(KEYS))} quotas"]
    lines += [f"{each.key} {shown_quota(each.key, each.value)}: {reason(each)}" for each in found]
    return lines


def reason(effect: Effect) -> str:
    """The entity that has the quota, and the clients whose use counts."""
    if effect.ip:
        shared = "connections from this address"
    elif effect.user and effect.client_id:
        shared = "this user with this client id"
    elif effect.user:
        shared = "all clients of the user"
    else:
        shared = "all users with this client id"
    return f"set for {entity_text(effect.entity)}; counts for {shared}, on each broker"


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The use of a quota at one broker. `rate` is None if unknown (changes of partitions); waits are those of the
    samples.
    """

    broker: int
    key: str
    user: str
    client_id: str
    limit: float
    rate: float | None
    waits: int
    waited_ms: int

    @property
    def share(self) -> float | None:
        return None if self.rate is None or self.limit <= 0 else self.rate / self.limit

    @property
    def whose(self) -> str:
        """An address, a user, a client id, or a user with a client id."""
        if self.key == CONNECTION_CREATION_RATE:
            return f"ip {self.client_id}"
        parts = [f"user {self.user}"] if self.user else []
        return ", ".join([*parts, *([f"client-id {self.client_id}"] if self.client_id else [])])


def quota_uses(samples: Sequence[Sample]) -> tuple[list[QuotaUse], int]:
    """The use of quotas in the samples, which may be those of several brokers, and how many the newest leave out."""
    waits: dict[tuple[int, str, str, str], tuple[int, int]] = {}
    newest: dict[int, Sample] = {}
    for sample in samples:
        newest[sample.broker] = sample
        for each in sample.quotas:
            place = (sample.broker, each.key, each.user, each.client_id)
            before = waits.get(place, (0, 0))
            waits[place] = (before[0] + each.waits, before[1] + each.waited_ms)
    found = {
        (sample.broker, each.key, each.user, each.client_id): each
        for sample in samples
        for each in sample.quotas
        # A client without an entry in the newest sample has sent nothing lately, but may have been throttled.
        if sample is newest[sample.broker] or each.waits
    }
    rows = [
        QuotaUse(
            place[0],
            each.key,
            each.user,
            each.client_id,
            each.limit,
            None if each.key == CONTROLLER_MUTATION_RATE else each.rate,
            *waits[place],
        )
        for place, each in found.items()
    ]
    return rows, sum(sample.quotas_left_out for sample in newest.values())
