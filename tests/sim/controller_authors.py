"""Changes of ACLs and users in the world of the controller. The events of each commit name each change and its author,
although images contain no authors, and operations may be dropped.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from broker_cy.controller.acl_ops import CreateAcls, DeleteAcls
from broker_cy.controller.scram_ops import AlterScramCredentials
from broker_cy.metadata.authors import NOBODY, Author
from broker_cy.metrics.events import AclsCreated, AclsDeleted, ScramUsersChanged
from broker_cy.wire import messages
from tests.broker_cy.controller.acts import Act

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker_cy.metrics.events import Event
    from tests.sim.controller_world import World

AUTHORS = (Author("c1", "192.0.2.1", "User:ann"), Author("", "192.0.2.2", "User:bob"), NOBODY)
NAMES = ("x", "y", "z")
SALT = b"a salt of a user"
# The current ACLs by name, and the users with their iterations.
State = dict[tuple[str, str], int]
# A key, its value after an operation (None: deleted), and the author of the operation.
Change = tuple[tuple[str, str], int | None, Author]


class Changes:
    """`act` makes a change; `committed` gets the events of each commit."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._draw = Random(f"authors {seed}")
        self._state: State = {}
        self._pending: list[Change] = []

    def is_due(self, chance: float) -> bool:
        return self._draw.random() < chance

    def forget(self) -> None:
        """Drop the changes that are not committed."""
        self._pending.clear()

    def act(self) -> None:
        draw = self._draw
        author, name = draw.choice(AUTHORS), draw.choice(NAMES)
        now = self._after(self._pending)
        kind = draw.choice(["create", "delete", "set", "drop"])
        key = ("acl" if kind in ("create", "delete") else "user", name)
        operation: Any
        value: int | None = None
        if kind == "create":
            operation, value = CreateAcls([_acl(name)], author), 0
            changes = key not in now
        elif kind == "delete":
            operation = DeleteAcls([_selecting(name)], author)
            changes = key in now
        else:
            value = draw.choice([4_096, 8_192]) if kind == "set" else None
            operation = AlterScramCredentials(_alteration(name, value), author)
            changes = value is not None or key in now
        self._world.operate(Act(f"{kind} rights", ()), operation)
        if changes:
            self._pending.append((key, value, author))
            self._world.counts["rights"] += 1

    def _after(self, changes: list[Change]) -> State:
        state = dict(self._state)
        for key, value, _ in changes:
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        return state

    def committed(self, events: Iterable[Event]) -> None:
        """The events name each change and its author; a change that the same commit undoes is not a change."""
        after = self._after(self._pending)
        authors = {key: author for key, _, author in self._pending}
        wanted = set()
        for key, author in authors.items():
            before, value = self._state.get(key), after.get(key)
            if key[0] == "acl":
                # An ACL that was deleted and created again is another one, with another id.
                lived = [each is not None for one, each, _ in self._pending if one == key]
                if before is None and value is not None:
                    wanted.add(("created", key[1], author))
                elif before is not None and False in lived:
                    # The author who deleted the committed ACL, not one that was created after it.
                    first = next(by for one, each, by in self._pending if one == key and each is None)
                    wanted.add(("deleted", key[1], first))
                    if value is not None:
                        wanted.add(("created", key[1], author))
            elif before is not None or value is not None:
                what = "deleted" if value is None else "created" if before is None else "altered"
                wanted.add((f"{what} user {value or 0}", key[1], author))
        self._state, self._pending = after, []
        found = set()
        for event in events:
            if isinstance(event, ScramUsersChanged):
                by = author_of(event)
                found |= {(f"{each.change} user {each.iterations}", each.user, by) for each in event.credentials}
            elif isinstance(event, AclsCreated | AclsDeleted):
                by = author_of(event)
                what = "created" if isinstance(event, AclsCreated) else "deleted"
                found |= {(what, each.name, by) for each in event.acls}
        assert found == wanted, f"the events say {found - wanted}, and should say {wanted - found}"
        assert not self._world.cluster.image.authors, "the image keeps authors"


def author_of(event: Any) -> Author:
    return Author(event.by.client_id, event.by.host, event.by.principal)


def _acl(name: str) -> Any:
    return messages.CreateAclsRequest.AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )


def _selecting(name: str) -> Any:
    return messages.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=name,
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def _alteration(user: str, iterations: int | None) -> Any:
    request = messages.AlterUserScramCredentialsRequest
    if iterations is None:
        return request(deletions=[request.ScramCredentialDeletion(name=user, mechanism=1)])
    upsertion = request.ScramCredentialUpsertion(
        name=user, mechanism=1, iterations=iterations, salt=SALT, salted_password=b"salted"
    )
    return request(upsertions=[upsertion])
