"""The quota that applies to a client."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random

from broker_cy.admin.quota_effect import effects_on_address, effects_on_client
from broker_cy.admin.quotas import QuotaEntry
from broker_cy.quotas.limits import Limits
from broker_cy.wire import messages

Part = messages.ClientQuotaRecord.EntityData
NAMES = ("a", "b", None)


def parts(entity: dict[str, str | None]) -> list[Part]:
    return [Part(entity_type=kind, entity_name=name) for kind, name in entity.items()]


def test_the_most_specific_quota_applies() -> None:
    """If this fails, a client is held back by the quota of others, or escapes its own."""
    order: list[tuple[dict[str, str | None], tuple[str, str]]] = [
        ({"user": "u", "client-id": "c"}, ("u", "c")),
        ({"user": "u", "client-id": None}, ("u", "c")),
        ({"user": "u"}, ("u", "")),
        ({"user": None, "client-id": "c"}, ("u", "c")),
        ({"user": None, "client-id": None}, ("u", "c")),
        ({"user": None}, ("u", "")),
        ({"client-id": "c"}, ("", "c")),
        ({"client-id": None}, ("", "c")),
    ]
    limits = Limits()
    for number, (entity, _) in enumerate(order):
        limits.set(parts(entity), float(number))
    for other in ({"user": "x", "client-id": "c"}, {"user": "u", "client-id": "x"}, {"user": "x"}, {"client-id": "x"}):
        limits.set(parts(dict(other)), 99.0)
    for number, (entity, tags) in enumerate(order):
        assert limits.find("u", "c") == (tags, float(number))
        limits.set(parts(entity), None)
    assert limits.find("u", "c") is None
    assert len(limits) == 4
    assert limits


def plain(table: dict[tuple[str, str], float], user: str, client_id: str) -> float | None:
    """The same, written as the table of Kafka's documentation; "-" is a part that an entity does not have."""
    for entity in (
        (user, client_id),
        (user, "*"),
        (user, "-"),
        ("*", client_id),
        ("*", "*"),
        ("*", "-"),
        ("-", client_id),
        ("-", "*"),
    ):
        if entity in table:
            return table[entity]
    return None


def test_any_set_of_quotas() -> None:
    """If this fails, a quota that was removed still applies, or one of another kind hides it."""
    for seed in range(300):
        draw = Random(f"limits {seed}")
        limits, table = Limits(), dict[tuple[str, str], float]()
        for _ in range(draw.randint(1, 25)):
            entity = {kind: draw.choice(NAMES) for kind in ("user", "client-id") if draw.random() < 0.7}
            if not entity:
                continue
            value = None if draw.random() < 0.4 else float(draw.randint(1, 9))
            limits.set(parts(entity), value)
            key = tuple("-" if kind not in entity else entity[kind] or "*" for kind in ("user", "client-id"))
            if value is None:
                table.pop((key[0], key[1]), None)
            else:
                table[key[0], key[1]] = value
        assert len(limits) == len(table)
        for user, client_id in product("abx", "abx"):
            found = limits.find(user, client_id)
            assert (None if found is None else found[1]) == plain(table, user, client_id), (seed, table)
        entries = [QuotaEntry(listed(*entity), {"k": value}) for entity, value in table.items()]
        for user, client_id in product(("a", "b", "x"), ("a", "b", "x", "")):
            found = limits.find(user, client_id)
            shown = effects_on_client(entries, user, client_id)
            assert [((each.user, each.client_id), each.value) for each in shown] == ([] if found is None else [found])
            assert all(table[entity_key(each.entity)] == each.value for each in shown), (seed, table)


def listed(user: str, client_id: str) -> dict[str, str | None]:
    """An entity as DescribeClientQuotas lists it."""
    parts = {"user": user, "client-id": client_id}
    return {kind: None if name == "*" else name for kind, name in parts.items() if name != "-"}


def entity_key(entity: Mapping[str, str | None]) -> tuple[str, str]:
    user, client_id = ("-" if kind not in entity else entity[kind] or "*" for kind in ("user", "client-id"))
    return user, client_id


def test_quotas_of_addresses() -> None:
    """If this fails, a console names the quota of another address, or none."""
    entries = [
        QuotaEntry({"ip": "::1"}, {"connection_creation_rate": 1.0}),
        QuotaEntry({"ip": None}, {"connection_creation_rate": 2.0}),
        QuotaEntry({"user": None}, {"request_percentage": 3.0}),
    ]
    for order in (entries, entries[::-1]):
        found = [[(each.entity, each.value) for each in effects_on_address(order, ip)] for ip in ("0:0::1", "10.0.0.1")]
        assert found == [[({"ip": "::1"}, 1.0)], [({"ip": None}, 2.0)]]
    assert effects_on_address(entries[:1], "10.0.0.1") == []


def test_a_client_without_a_client_id() -> None:
    """As in Kafka: the default of client ids is not for it, and a user's default of client ids hides the user's own."""
    limits = Limits()
    limits.set(parts({"client-id": None}), 5.0)
    assert limits.find("u", "") is None
    limits.set(parts({"user": None}), 7.0)
    assert limits.find("u", "") == (("u", ""), 7.0)
    limits.set(parts({"user": "u", "client-id": None}), 1.0)
    assert limits.find("u", "") == (("u", ""), 7.0)
