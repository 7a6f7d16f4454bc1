"""Delegation tokens: CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), and the sweep
of those that have expired, with the rules of Kafka's DelegationTokenControlManager (KIP-48, KIP-373).

    issue <= expiration <= max      a token counts until its expiration, which a renewal moves, at most to max

Only users own tokens here. Kafka also makes tokens of owners of another type: the client is then the user of the same
name, although the requester had no permission for that. The records are in the image's `tokens`.

Bounds: TOKENS_MAX tokens of a cluster, RENEWERS_MAX of a token, SWEPT_MAX records of a sweep. A token is found by its
HMAC in O(tokens).
"""

from __future__ import annotations

import hmac
from typing import Any, Final

from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core import tokens
from broker_cy.core import uuid as uuids
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import features
from broker_cy.metadata.authors import CLUSTER, Author, tag_of
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

USER: Final = "User"
MAX_LIFETIME: Final = "delegation.token.max.lifetime.ms"
EXPIRY_TIME: Final = "delegation.token.expiry.time.ms"
# Kafka has no limit.
TOKENS_MAX: Final = 100_000
RENEWERS_MAX: Final = 1_000
# Kafka's MAX_RECORDS_PER_EXPIRATION.
SWEPT_MAX: Final = 1_000
_TIME_MS_MAX: Final = (1 << 63) - 1

_Created = messages.CreateDelegationTokenResponse
_Renewed = messages.RenewDelegationTokenResponse
_Expired = messages.ExpireDelegationTokenResponse


def is_expired(token: Any, now_ms: int) -> bool:
    return bool(token.max_timestamp < now_ms or token.expiration_timestamp < now_ms)


def owner_of(request: Any, requester: str) -> str:
    """The owner of the requested token; `requester` and the owner are principals."""
    name = request.owner_principal_name
    return f"{request.owner_principal_type}:{name}" if name else requester


def names_others_than_users(request: Any, owner: str) -> bool:
    return in_parts(owner)[0] != USER or any(each.principal_type != USER for each in request.renewers)


def in_parts(principal: str) -> tuple[str, str]:
    """Type and name."""
    kind, _, name = principal.partition(":")
    return kind, name


@dataclass(slots=True)
class CreateToken(Operation[Any]):
    """The reply is the CreateDelegationTokenResponse for `request`; `by` is the requester."""

    request: Any
    by: Author

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        owner = owner_of(self.request, self.by.principal)
        kind, name = in_parts(owner)
        requester_kind, requester_name = in_parts(self.by.principal)
        response = _Created(
            principal_type=kind,
            principal_name=name,
            token_requester_principal_type=requester_kind,
            token_requester_principal_name=requester_name,
        )
        secret_key = context.config.token_secret_key
        error = _unavailable(state, secret_key) or self._wrong(state, owner)
        if error or secret_key is None:
            response.error_code = int(error)
            return response
        lifetime_ms = context.config[MAX_LIFETIME]
        if self.request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, self.request.max_lifetime_ms)
        now_ms = context.now_ms
        record = messages.DelegationTokenRecord(
            owner=owner,
            requester=self.by.principal,
            renewers=[f"{each.principal_type}:{each.principal_name}" for each in self.request.renewers],
            issue_timestamp=now_ms,
            max_timestamp=_sum(now_ms, lifetime_ms),
            token_id=uuids.to_text(context.new_uuid()),
            _unknown_tags=tag_of(self.by),
        )
        record.expiration_timestamp = min(record.max_timestamp, _sum(now_ms, context.config[EXPIRY_TIME]))
        response.issue_timestamp_ms = now_ms
        response.expiry_timestamp_ms = record.expiration_timestamp
        response.max_timestamp_ms = record.max_timestamp
        response.token_id = record.token_id
        response.hmac = tokens.hmac_of(secret_key, record.token_id)
        step.records.append(VersionedRecord(record))
        return response

    def _wrong(self, state: MetadataImage, owner: str) -> ErrorCode:
        if names_others_than_users(self.request, owner):
            return ErrorCode.INVALID_PRINCIPAL_TYPE
        if len(self.request.renewers) > RENEWERS_MAX or len(state.tokens) >= TOKENS_MAX:
            return ErrorCode.POLICY_VIOLATION
        return ErrorCode.NONE


@dataclass(slots=True)
class RenewToken(Operation[Any]):
    """The reply is the RenewDelegationTokenResponse for `request`; `by` is the requester."""

    request: Any
    by: Author

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        token, error = _found(state, context, self.request.hmac, self.by.principal, must_count=True)
        if error:
            return _Renewed(error_code=int(error))
        period_ms = context.config[EXPIRY_TIME]
        if self.request.renew_period_ms > 0:
            period_ms = min(period_ms, self.request.renew_period_ms)
        return _until(step, token, _sum(context.now_ms, period_ms), self.by, _Renewed)


@dataclass(slots=True)
class ExpireToken(Operation[Any]):
    """The reply is the ExpireDelegationTokenResponse for `request`; `by` is the requester."""

    request: Any
    by: Author

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        period_ms = self.request.expiry_time_period_ms
        # Also one that has expired can be removed.
        token, error = _found(state, context, self.request.hmac, self.by.principal, must_count=period_ms >= 0)
        if error:
            return _Expired(error_code=int(error))
        if period_ms < 0:
            step.records.append(_removal(token, self.by))
            return _Expired(expiry_timestamp_ms=context.now_ms)
        return _until(step, token, _sum(context.now_ms, period_ms), self.by, _Expired)


@dataclass(slots=True)
class SweepTokens(Operation[bool]):
    """Remove the tokens that have expired, at most SWEPT_MAX; the reply is whether more may be left."""

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> bool:
        records = []
        for token in state.tokens.values():
            if is_expired(token, context.now_ms):
                records.append(_removal(token, CLUSTER))
                if len(records) == SWEPT_MAX:
                    break
        step.records += records
        return len(records) == SWEPT_MAX


def _unavailable(state: MetadataImage, secret_key: str | None) -> ErrorCode:
    if secret_key is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if state.features.metadata_version < features.MV_DELEGATION_TOKENS:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def _found(
    state: MetadataImage, context: OperationContext, wanted: bytes, requester: str, *, must_count: bool
) -> tuple[Any, ErrorCode]:
    """The token with this HMAC, if the requester may renew it; `must_count`: and if it has not expired."""
    secret_key = context.config.token_secret_key
    error = _unavailable(state, secret_key)
    if error or secret_key is None:
        return None, error
    token = None
    for each in state.tokens.values():
        if hmac.compare_digest(tokens.hmac_of(secret_key, each.token_id), wanted):
            token = each
    if token is None:
        return None, ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    expired = is_expired(token, context.now_ms)
    may_renew = requester == token.owner or requester in token.renewers
    # In Kafka's order: of a renewal the time is judged first, of an expiration the requester.
    if not may_renew and not (expired and must_count):
        return None, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if expired and must_count:
        return None, ErrorCode.DELEGATION_TOKEN_EXPIRED
    return token, ErrorCode.NONE


def _until(step: MetadataStep, token: Any, time_ms: int, by: Author, response: Any) -> Any:
    """Let the token count until then, or until the end of its life."""
    expiry_ms = min(token.max_timestamp, time_ms)
    record = messages.DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expiry_ms,
        token_id=token.token_id,
        _unknown_tags=tag_of(by),
    )
    step.records.append(VersionedRecord(record))
    return response(expiry_timestamp_ms=expiry_ms)


def _removal(token: Any, by: Author) -> VersionedRecord:
    return VersionedRecord(messages.RemoveDelegationTokenRecord(token_id=token.token_id, _unknown_tags=tag_of(by)))


def _sum(now_ms: int, duration_ms: int) -> int:
    return int(min(now_ms + duration_ms, _TIME_MS_MAX))
