"""The events of changes of ACLs, SCRAM credentials, quotas and delegation tokens. Pure: they follow from the changes of
a commit, which also name their author (metadata.authors); `by` is empty if the author is unknown, as with a controller
of Apache Kafka.

A commit may have changes of several authors: each author gets one event. An event has only the user, mechanism and
iterations of a credential; the metadata has no HMAC of a token. A record that changes nothing makes no event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker_cy.core import scram
from broker_cy.metadata.authors import CLUSTER, TAG, read, tag_of
from broker_cy.metadata.image import ACL, SCRAM, TOKEN
from broker_cy.metadata.quotas import QUOTA, entity_of_parts
from broker_cy.metrics.events import (
    CHANGES_REPORTED_MAX,
    Acl,
    AclsCreated,
    AclsDeleted,
    Client,
    ClientQuotasChanged,
    Credential,
    DelegationTokensChanged,
    Event,
    QuotaChange,
    ScramUsersChanged,
    TokenChange,
)
from broker_cy.security.acls import Binding

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta

_BY_CLUSTER: Final = dict(tag_of(CLUSTER))[TAG]
# A change: the class of its event, whose first fields are the changes, their number and the author; the author as it is
# in the record; and what makes the change as the event lists it.
_Found = tuple[Callable[..., Event], bytes, Callable[[], Any]]


def security_changes(delta: ImageDelta) -> Iterator[Event]:
    """The events of a commit, at most CHANGES_REPORTED_MAX changes listed in each."""
    for found in (_acls(delta), _credentials(delta), _quotas(delta), _tokens(delta)):
        yield from _by_author(found)


def _by_author(found: Iterable[_Found]) -> Iterator[Event]:
    listed: dict[tuple[Callable[..., Event], bytes], list[Any]] = {}
    totals: Counter[tuple[Callable[..., Event], bytes]] = Counter()
    for make, author, change in found:
        totals[make, author] += 1
        changes = listed.setdefault((make, author), [])
        if len(changes) < CHANGES_REPORTED_MAX:
            changes.append(change())
    for (make, author), changes in listed.items():
        yield make(changes, totals[make, author], Client(*read(author)))


def acl_of(binding: Binding) -> Acl:
    """A binding, as events have it."""
    return Acl(
        binding.permission.name,
        binding.principal,
        binding.host,
        binding.operation.name,
        binding.resource_type.name,
        binding.pattern_type.name,
        binding.name,
    )


def _acls(delta: ImageDelta) -> Iterator[_Found]:
    for before, after in delta.acls:
        for record, make in ((before, AclsDeleted), (after, AclsCreated)):
            if record is not None:
                yield make, delta.authors.get((ACL, record.id), b""), partial(_acl, record)


def _acl(record: Any) -> Acl:
    return acl_of(Binding.of_record(record))


def _credentials(delta: ImageDelta) -> Iterator[_Found]:
    for before, after in delta.scram:
        record = after or before
        # The user without a name is none: see controller.scram_ops.
        if record is not None and record.name:
            author = delta.authors.get((SCRAM, record.name, record.mechanism), b"")
            yield ScramUsersChanged, author, partial(_credential, before, after)


def _credential(before: Any, after: Any) -> Credential:
    record = after or before
    mechanism = scram.of_type(record.mechanism)
    name = str(record.mechanism) if mechanism is None else mechanism.name
    if after is None:
        return Credential(record.name, name, "deleted")
    return Credential(record.name, name, "created" if before is None else "altered", after.iterations)


def _quotas(delta: ImageDelta) -> Iterator[_Found]:
    for before, after in delta.quotas:
        record = after or before
        old, new = (None if each is None else _number(each.value) for each in (before, after))
        if old != new:
            entity = entity_of_parts(record.entity)
            author = delta.authors.get((QUOTA, entity, record.key), b"")
            # The user comes first.
            yield ClientQuotasChanged, author, partial(QuotaChange, dict(reversed(entity)), record.key, old, new)


def _number(value: float) -> str:
    """As text: JSON has neither NaN nor infinity, which quotas may be."""
    return str(int(value)) if value.is_integer() else repr(value)


def _tokens(delta: ImageDelta) -> Iterator[_Found]:
    for before, after in delta.tokens:
        if before != after:
            author = delta.authors.get((TOKEN, (after or before).token_id), b"")
            yield DelegationTokensChanged, author, partial(_token, before, after, by_cluster=author == _BY_CLUSTER)


def _token(before: Any, after: Any, *, by_cluster: bool) -> TokenChange:
    record = after or before
    what = _token_change(before, after, by_cluster=by_cluster)
    until_ms, max_ms = record.expiration_timestamp, record.max_timestamp
    return TokenChange(record.token_id, record.owner, record.requester, what, until_ms, max_ms)


def _token_change(before: Any, after: Any, *, by_cluster: bool) -> str:
    if after is None:
        return "expired" if by_cluster else "removed"
    if before is None:
        return "created"
    return "renewed" if after.expiration_timestamp > before.expiration_timestamp else "shortened"
