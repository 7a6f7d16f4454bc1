"""The listed quotas that apply to a client: the precedence of Kafka's ClientQuotaManager.

Brokers decide with `broker_cy.quotas.limits`, which clients do not import; a test compares both. An address has the
quota of its name, or the default of addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from broker_cy.admin.quotas import CLIENT_ID, IP, USER, Entity, QuotaEntry
from broker_cy.core.classes import dataclass

# Users without a login.
ANONYMOUS: Final = "ANONYMOUS"
# The part of an entity: none, the default (None), or a name.
_Part = tuple[str | None, ...]
_NONE: Final[_Part] = ()
_DEFAULT: Final[_Part] = (None,)
_Entities = Mapping[tuple[_Part, _Part], tuple[Entity, float]]


@dataclass(frozen=True, slots=True)
class Effect:
    """A quota in effect, set for `entity`. Clients with the same `user` and `client_id` share its use; an empty one
    stands for all.
    """

    key: str
    value: float
    entity: Entity
    user: str = ""
    client_id: str = ""
    ip: str = ""


def effects_on_client(entries: Iterable[QuotaEntry], user: str, client_id: str) -> list[Effect]:
    """The quotas of a user with a client id, one of each key at most; of a user without a login: ANONYMOUS."""
    by_key: dict[str, dict[tuple[_Part, _Part], tuple[Entity, float]]] = {}
    for entry in entries:
        if IP in entry.entity:
            continue
        place = (_part(entry.entity, USER), _part(entry.entity, CLIENT_ID))
        for key, value in entry.values.items():
            by_key.setdefault(key, {})[place] = (entry.entity, value)
    found = []
    for key in sorted(by_key):
        counted = _counted(by_key[key], user, client_id)
        applied = next((by_key[key][each] for each in _order(*counted) if each in by_key[key]), None)
        if applied is not None:
            found.append(Effect(key, applied[1], applied[0], *counted))
    return found


def effects_on_address(entries: Iterable[QuotaEntry], ip: str) -> list[Effect]:
    """The quotas of an address, one of each key at most."""
    found: dict[str, Effect] = {}
    for entry in entries:
        name = entry.entity.get(IP, "")
        if name is None or (name and _same_address(name, ip)):
            for key, value in entry.values.items():
                if name is not None or key not in found:
                    found[key] = Effect(key, value, entry.entity, ip=ip)
    return [found[key] for key in sorted(found)]


def _part(entity: Entity, kind: str) -> _Part:
    return (entity[kind],) if kind in entity else _NONE


def _same_address(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one) == ipaddress.ip_address(other)
    except ValueError:
        return one == other


def _counted(found: _Entities, user: str, client_id: str) -> tuple[str, str]:
    """The user and client id that share the use: they follow from the kinds of quotas that exist."""
    kinds = {(place[0] != _NONE, place[1] != _NONE) for place in found}
    if len(kinds) == 1:
        ((has_user, has_client_id),) = kinds
        return user if has_user else "", client_id if has_client_id else ""
    own, named = (user,), (client_id,)
    if (own, named) in found or (own, _DEFAULT) in found:
        return user, client_id
    if (own, _NONE) in found:
        return user, ""
    if (_DEFAULT, named) in found or (_DEFAULT, _DEFAULT) in found:
        return user, client_id
    return (user, "") if (_DEFAULT, _NONE) in found else ("", client_id)


def _order(user: str, client_id: str) -> tuple[tuple[_Part, _Part], ...]:
    """The entities whose quota may apply to the counted use; the first one that is set applies."""
    own, named = (user,), (client_id,)
    if user and client_id:
        return (own, named), (own, _DEFAULT), (_DEFAULT, named), (_DEFAULT, _DEFAULT)
    if user:
        return (own, _NONE), (_DEFAULT, _NONE)
    return ((_NONE, named), (_NONE, _DEFAULT)) if client_id else ()
