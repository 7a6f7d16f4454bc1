"""Which quota applies to a client."""

from __future__ import annotations

from itertools import product
from random import Random

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


def test_a_client_without_a_client_id() -> None:
    """As in Kafka: the default of client ids is not for it, and a user's default of client ids hides the user's own."""
    limits = Limits()
    limits.set(parts({"client-id": None}), 5.0)
    assert limits.find("u", "") is None
    limits.set(parts({"user": None}), 7.0)
    assert limits.find("u", "") == (("u", ""), 7.0)
    limits.set(parts({"user": "u", "client-id": None}), 1.0)
    assert limits.find("u", "") == (("u", ""), 7.0)
