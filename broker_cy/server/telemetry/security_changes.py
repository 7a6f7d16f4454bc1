"""The events of changes of ACLs, SCRAM credentials, quotas and delegation tokens. Pure: they follow from what a commit
changed, which also says who asked for it (metadata.authors); `by` is empty where that is not known, as with a
controller of Apache Kafka.

A commit may have changes of several authors: there is one event for each of them. Nothing of a credential is taken over
but its user, mechanism and iterations; the metadata has no HMAC of a token. What is as it was before is no change.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def security_changes(delta: ImageDelta) -> Iterator[Event]:
    """The events of a commit, at most CHANGES_REPORTED_MAX changes listed in each."""
    if delta.acls:
        yield from _acls(delta)
    if delta.scram:
        yield from _credentials(delta)
    if delta.quotas:
        yield from _quotas(delta)
    if delta.tokens:
        yield from _tokens(delta)


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


def _acls(delta: ImageDelta) -> Iterator[Event]:
    changes: dict[tuple[bool, bytes], AclsCreated | AclsDeleted] = {}
    for before, after in delta.acls:
        for record, is_created in ((before, False), (after, True)):
            if record is None:
                continue
            author = delta.authors.get((ACL, record.id), b"")
            event = changes.get((is_created, author))
            if event is None:
                by = Client(*read(author))
                event = AclsCreated(by=by) if is_created else AclsDeleted(by=by)
                changes[is_created, author] = event
            event.acls_total += 1
            if len(event.acls) < CHANGES_REPORTED_MAX:
                event.acls.append(acl_of(Binding.of_record(record)))
    yield from changes.values()


def _credentials(delta: ImageDelta) -> Iterator[Event]:
    changes: dict[bytes, ScramUsersChanged] = {}
    for before, after in delta.scram:
        record = after or before
        # The user without a name is none: see controller.scram_ops.
        if record is None or not record.name:
            continue
        author = delta.authors.get((SCRAM, record.name, record.mechanism), b"")
        event = changes.get(author)
        if event is None:
            event = changes[author] = ScramUsersChanged(by=Client(*read(author)))
        event.credentials_total += 1
        if len(event.credentials) < CHANGES_REPORTED_MAX:
            event.credentials.append(_credential(before, after))
    yield from changes.values()


def _credential(before: Any, after: Any) -> Credential:
    record = after or before
    mechanism = scram.of_type(record.mechanism)
    name = str(record.mechanism) if mechanism is None else mechanism.name
    if after is None:
        return Credential(record.name, name, "deleted")
    return Credential(record.name, name, "created" if before is None else "altered", after.iterations)


def _quotas(delta: ImageDelta) -> Iterator[Event]:
    changes: dict[bytes, ClientQuotasChanged] = {}
    for before, after in delta.quotas:
        record = after or before
        old, new = (None if each is None else _number(each.value) for each in (before, after))
        if old == new:
            continue
        entity = entity_of_parts(record.entity)
        author = delta.authors.get((QUOTA, entity, record.key), b"")
        event = changes.get(author)
        if event is None:
            event = changes[author] = ClientQuotasChanged(by=Client(*read(author)))
        event.quotas_total += 1
        if len(event.quotas) < CHANGES_REPORTED_MAX:
            # The user comes first.
            event.quotas.append(QuotaChange(dict(reversed(entity)), record.key, old, new))
    yield from changes.values()


def _number(value: float) -> str:
    """As text: JSON has neither NaN nor infinity, which quotas may be."""
    return str(int(value)) if value.is_integer() else repr(value)


def _tokens(delta: ImageDelta) -> Iterator[Event]:
    changes: dict[bytes, DelegationTokensChanged] = {}
    for before, after in delta.tokens:
        if before == after:
            continue
        record = after or before
        author = delta.authors.get((TOKEN, record.token_id), b"")
        event = changes.get(author)
        if event is None:
            event = changes[author] = DelegationTokensChanged(by=Client(*read(author)))
        event.tokens_total += 1
        if len(event.tokens) < CHANGES_REPORTED_MAX:
            what = _token_change(before, after, by_cluster=author == _BY_CLUSTER)
            until_ms, max_ms = record.expiration_timestamp, record.max_timestamp
            event.tokens.append(TokenChange(record.token_id, record.owner, record.requester, what, until_ms, max_ms))
    yield from changes.values()


def _token_change(before: Any, after: Any, *, by_cluster: bool) -> str:
    if after is None:
        return "expired" if by_cluster else "removed"
    if before is None:
        return "created"
    return "renewed" if after.expiration_timestamp > before.expiration_timestamp else "shortened"
