"""Acts on delegation tokens: create, renew and end one. The HMAC of a new one is in the report, once, and nowhere
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.tokens import USER, DelegationToken
from broker_cy.client.quantities import DURATION_HELP, parse_duration
from broker_cy.console.acts.plan import Change, Command, Plan, Report, Revealed
from broker_cy.console.fields import Field, Form
from broker_cy.console.values import optional
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import when

_PREFIX = f"{USER}:"
_RENEWERS_MAX = 1_000
_WHO = "The owner and its renewers may renew and end it."
# Kafka's largest times stand for a token that does not end.
_FOR_EVER_MS = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class CreateToken:
    owner: str | None
    renewers: tuple[str, ...]
    lifetime_ms: int | None

    async def run(self, client: AdminClient) -> Report:
        token, secret = await client.tokens.create(
            owner=self.owner, renewers=self.renewers, lifetime_ms=self.lifetime_ms
        )
        return Report(
            f"created token {token.token_id} of {token.owner}",
            (token.token_id,),
            revealed=Revealed(f"HMAC of token {token.token_id}", secret.password),
        )


@dataclass(frozen=True, slots=True)
class RenewToken:
    token_id: str
    period_ms: int | None

    async def run(self, client: AdminClient) -> Report:
        secret = await client.tokens.secret_of(self.token_id)
        until_ms = await client.tokens.renew(secret, self.period_ms)
        return Report(f"token {self.token_id} counts until {token_time(until_ms)}", (self.token_id,))


@dataclass(frozen=True, slots=True)
class ExpireToken:
    token_id: str
    period_ms: int | None

    async def run(self, client: AdminClient) -> Report:
        secret = await client.tokens.secret_of(self.token_id)
        until_ms = await client.tokens.expire(secret, self.period_ms)
        ended = "ended" if self.period_ms is None else "ends at"
        return Report(f"token {self.token_id} {ended} {token_time(until_ms)}", (self.token_id,))


def is_for_ever(ms: int) -> bool:
    """Whether a time is one of the largest, which stand for never."""
    return ms >= _FOR_EVER_MS


def token_time(ms: int, *, utc: bool = True) -> str:
    return "never" if is_for_ever(ms) else when(ms, utc=utc)


def new_token_form() -> Form:
    """The form for a new token."""
    return Form(
        "Create a delegation token",
        [
            Field("owner", "Owner", _user_or_none, hint="a user; empty: the user of this console"),
            Field("renewers", "Renewers", _users, hint="users, separated by commas, or empty"),
            Field("lifetime", "Maximum lifetime", optional(parse_duration), hint=f"{DURATION_HELP}; empty: as set"),
        ],
        note="Its id and its HMAC log in as the owner. The HMAC is shown once, when the token is created.",
    )


def _user_or_none(text: str) -> str | None:
    return text.strip().removeprefix(_PREFIX) or None


def _users(text: str) -> tuple[str, ...]:
    names = [each.strip().removeprefix(_PREFIX) for each in text.split(",") if each.strip()]
    if len(names) > _RENEWERS_MAX:
        raise ValueError(f"{len(names):,} renewers; {_RENEWERS_MAX:,} are allowed")
    return tuple(names)


async def plan_create_token(command: Command, values: Mapping[str, Any]) -> Plan:
    """Plan the values entered into `new_token_form`."""
    owner, renewers, lifetime_ms = values["owner"], values["renewers"], values["lifetime"]
    whose = f"{_PREFIX}{owner}" if owner else "the user of this console"
    lifetime = "as the brokers are set" if lifetime_ms is None else f"{lifetime_ms:,} ms"
    parts = ["--owner", owner] if owner else []
    for each in renewers:
        parts += ["--renewer", each]
    if lifetime_ms is not None:
        parts += ["--max-lifetime", f"{lifetime_ms}ms"]
    return Plan(
        "Create a delegation token",
        f"a token of {whose}, with which jobs log in without a password",
        command("tokens", "create", *parts, "--hmac-file", "FILE"),
        CreateToken(owner, renewers, lifetime_ms),
        [
            Change("renewers", after=", ".join(renewers) or "none besides the owner"),
            Change("maximum lifetime", after=lifetime),
        ],
        verb="Create",
        is_destructive=False,
    )


def renew_form(token: DelegationToken) -> Form:
    return Form(
        f"Renew token {token.token_id}",
        [Field("period", "From now on", optional(parse_duration), hint=f"{DURATION_HELP}; empty: as set")],
        note=f"It counts until {token_time(token.expires_ms)}, at most until {token_time(token.max_ms)}. {_WHO}",
    )


async def plan_renew_token(command: Command, token: DelegationToken, values: Mapping[str, Any]) -> Plan:
    """Plan the values entered into `renew_form`."""
    period_ms = values["period"]
    return Plan(
        f"Renew token {token.token_id}",
        f"lets the token of {token.owner} count longer, at most until {token_time(token.max_ms)}",
        command("tokens", "renew", token.token_id, *_for("--for", period_ms)),
        RenewToken(token.token_id, period_ms),
        [Change("expires", token_time(token.expires_ms), _from_now(period_ms))],
        verb="Renew",
        is_destructive=False,
    )


def expire_form(token: DelegationToken) -> Form:
    return Form(
        f"Expire token {token.token_id}",
        [Field("period", "After", optional(parse_duration), hint=f"{DURATION_HELP}; empty: now")],
        note=f"A token that has ended cannot be renewed. {_WHO}",
    )


async def plan_expire_token(command: Command, token: DelegationToken, values: Mapping[str, Any]) -> Plan:
    """Plan the values entered into `expire_form`."""
    period_ms = values["period"]
    return Plan(
        f"Expire token {token.token_id}",
        f"ends the token of {token.owner}; clients that logged in with it are disconnected",
        command("tokens", "expire", token.token_id, *_for("--in", period_ms)),
        ExpireToken(token.token_id, period_ms),
        [Change("expires", token_time(token.expires_ms), "now" if period_ms is None else _from_now(period_ms))],
        typed=token.owner.removeprefix(_PREFIX),
        verb="Expire",
    )


def _for(option: str, period_ms: int | None) -> list[str]:
    return [] if period_ms is None else [option, f"{period_ms}ms"]


def _from_now(period_ms: int | None) -> str:
    return "as the brokers are set" if period_ms is None else f"{period_ms:,} ms from now"
