"""Delegation tokens (KIP-48, KIP-373): a client that has logged in, not with a token, makes, sees, renews and ends
them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from broker_cy.admin.caller import Caller
from broker_cy.client.errors import ClientError, Failure, problem_of
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

USER: Final = "User"
# Kafka's periods that stand for the broker's setting, and for "now".
_DEFAULT_MS: Final = -1
_AT_ONCE_MS: Final = -1
_REQUESTER_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token without its secret, the HMAC. Principals are as Kafka writes them, times are ms since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class TokenSecret:
    """The secret that a client logs in with besides the id, in base64. It is not in the `repr`."""

    hmac: bytes

    @property
    def password(self) -> str:
        return base64.b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        return "TokenSecret()"


class TokenCalls:
    """`client.tokens`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(self, owners: Iterable[str] | None = None) -> dict[str, tuple[DelegationToken, TokenSecret]]:
        """The tokens by id that this client may see; with `owners`, names of users, only those that concern them.
        Raises ClientError.
        """
        kind = messages.DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
        asked = [kind(principal_type=USER, principal_name=each) for each in owners] if owners is not None else None
        answer = await self._caller.ask(
            messages.DescribeDelegationTokenRequest(owners=asked),
            messages.DescribeDelegationTokenResponse,
            _problem,
        )
        return {each.token_id: (_described(each), TokenSecret(each.hmac)) for each in answer.tokens}

    async def create(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), lifetime_ms: int | None = None
    ) -> tuple[DelegationToken, TokenSecret]:
        """Make a token of this client, or of the user `owner`. Names are those of users. Raises ClientError."""
        kind = messages.CreateDelegationTokenRequest.CreatableRenewers
        names = list(renewers)
        request = messages.CreateDelegationTokenRequest(
            renewers=[kind(principal_type=USER, principal_name=each) for each in names],
            max_lifetime_ms=_DEFAULT_MS if lifetime_ms is None else lifetime_ms,
        )
        least = 0
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = USER, owner
            least = _REQUESTER_VERSION
        answer = await self._caller.ask(
            request, messages.CreateDelegationTokenResponse, _problem, controller=True, at_least=least
        )
        token = DelegationToken(
            answer.token_id,
            f"{answer.principal_type}:{answer.principal_name}",
            f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            tuple(f"{USER}:{each}" for each in names),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )
        return token, TokenSecret(answer.hmac)

    async def secret_of(self, token_id: str) -> TokenSecret:
        """The secret of a token that this client may see. Raises ClientError."""
        found = (await self.describe()).get(token_id)
        if found is None:
            raise ClientError(
                Failure.REFUSED,
                "there is no such token, or this user may not see it",
                code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
                what=f"token {token_id}",
            )
        return found[1]

    async def renew(self, secret: TokenSecret, period_ms: int | None = None) -> int:
        """Extend the token by `period_ms` from now, at most to the end of its life; None: by the brokers' setting.
        Returns its expiry time. Raises ClientError.
        """
        request = messages.RenewDelegationTokenRequest(
            hmac=secret.hmac, renew_period_ms=_DEFAULT_MS if period_ms is None else period_ms
        )
        answer = await self._caller.ask(request, messages.RenewDelegationTokenResponse, _problem, controller=True)
        return answer.expiry_timestamp_ms

    async def expire(self, secret: TokenSecret, period_ms: int | None = None) -> int:
        """Let the token expire `period_ms` from now; None: now. Returns its expiry time. Raises ClientError."""
        request = messages.ExpireDelegationTokenRequest(
            hmac=secret.hmac, expiry_time_period_ms=_AT_ONCE_MS if period_ms is None else period_ms
        )
        answer = await self._caller.ask(request, messages.ExpireDelegationTokenResponse, _problem, controller=True)
        return answer.expiry_timestamp_ms


def _problem(answer: Any) -> Any:
    return problem_of(answer.error_code)


def _described(found: Any) -> DelegationToken:
    return DelegationToken(
        found.token_id,
        f"{found.principal_type}:{found.principal_name}",
        f"{found.token_requester_principal_type}:{found.token_requester_principal_name}",
        tuple(f"{each.principal_type}:{each.principal_name}" for each in found.renewers),
        found.issue_timestamp,
        found.expiry_timestamp,
        found.max_timestamp,
    )
