"""The quota of a client: the table of one kind of quota, with the precedence of Kafka's ClientQuotaManager.

A quota is of a user, of a client id, or of both; each by name, or as the default for all that have none by name. The
first that is set of these applies to a client:

1. this user with this client id     5. the default user with the default client id
2. this user with the default        6. the default user
3. this user                         7. this client id
4. the default user with this id     8. the default client id

Clients with the same tags (user, client id) are counted together. If a quota of users applies, the tags join all
clients of a user ("" for the client id); if one of client ids applies, all users of a client id ("" for the user); else
each pair has its own tags.

As in Kafka, the kinds of quotas that exist determine the tags, and the tags determine the limit. So a client without a
client id gets no quota by "default client id" alone, and if "this user with the default" is set, it gets that of the
user.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from broker_cy.metadata.quotas import CLIENT_ID, USER


class Default(Enum):
    """The name of all users, or client ids, that have no quota by name."""

    DEFAULT = 0


DEFAULT: Final = Default.DEFAULT
Name = str | Default | None
# (user, client id), "" for one that does not matter.
Tags = tuple[str, str]


class Limits:
    """The quotas of one kind, in units a second."""

    __slots__ = ("_by_entity", "_kinds")

    def __init__(self) -> None:
        # By (user, client id); None for a part that the entity does not have.
        self._by_entity: dict[tuple[Name, Name], float] = {}
        # How many have (a user, a client id).
        self._kinds: dict[tuple[bool, bool], int] = {}

    def __bool__(self) -> bool:
        return bool(self._by_entity)

    def __len__(self) -> int:
        return len(self._by_entity)

    def set(self, parts: list[Any], limit: float | None) -> None:
        """Take over the quota of an entity of a ClientQuotaRecord; None: the quota was removed."""
        names: dict[str, Name] = {each.entity_type: each.entity_name for each in parts}
        user, client_id = (
            DEFAULT if kind in names and names[kind] is None else names.get(kind) for kind in (USER, CLIENT_ID)
        )
        entity = (user, client_id)
        kind = (user is not None, client_id is not None)
        if limit is None:
            if self._by_entity.pop(entity, None) is not None:
                self._kinds[kind] -= 1
                if not self._kinds[kind]:
                    del self._kinds[kind]
            return
        if entity not in self._by_entity:
            self._kinds[kind] = self._kinds.get(kind, 0) + 1
        self._by_entity[entity] = limit

    def find(self, user: str, client_id: str) -> tuple[Tags, float] | None:
        """The tags and the limit of a client; None if it has none."""
        if not self._by_entity:
            return None
        tags = self._tags(user, client_id)
        limit = self._limit(*tags)
        return None if limit is None else (tags, limit)

    def _tags(self, user: str, client_id: str) -> Tags:
        if len(self._kinds) == 1:
            ((has_user, has_client_id),) = self._kinds
            return (user if has_user else "", client_id if has_client_id else "")
        found = self._by_entity
        if (user, client_id) in found or (user, DEFAULT) in found:
            return user, client_id
        if (user, None) in found:
            return user, ""
        if (DEFAULT, client_id) in found or (DEFAULT, DEFAULT) in found:
            return user, client_id
        if (DEFAULT, None) in found:
            return user, ""
        return "", client_id

    def _limit(self, user: str, client_id: str) -> float | None:
        if user and client_id:
            order: tuple[tuple[Name, Name], ...] = (
                (user, client_id),
                (user, DEFAULT),
                (DEFAULT, client_id),
                (DEFAULT, DEFAULT),
            )
        elif user:
            order = ((user, None), (DEFAULT, None))
        elif client_id:
            order = ((None, client_id), (None, DEFAULT))
        else:
            return None
        return next((self._by_entity[entity] for entity in order if entity in self._by_entity), None)
