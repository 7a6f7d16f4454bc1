"""Delegation tokens in the world of the controller: users create, renew and expire tokens of their own and of others,
and the controller removes expired ones. This is a second implementation of the rules, based on the state before each
operation.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from broker_cy.controller.operation import Operation
from broker_cy.controller.token_ops import CreateToken, ExpireToken, RenewToken, SweepTokens
from broker_cy.core import tokens
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.authors import CLUSTER, Author
from broker_cy.metrics.events import DelegationTokensChanged
from broker_cy.wire import messages
from tests.broker_cy.controller.acts import Act
from tests.sim.controller_authors import author_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker_cy.metrics.events import Event
    from tests.sim.controller_world import World

SECRET_KEY = "the secret key"
LIFETIME_MS, PERIOD_MS = 10_000, 4_000
SETTINGS = {
    "delegation.token.secret.key": SECRET_KEY,
    "delegation.token.max.lifetime.ms": str(LIFETIME_MS),
    "delegation.token.expiry.time.ms": str(PERIOD_MS),
}
USERS = ("User:a", "User:b", "User:c")
STEPS = 12
# Most requests are about the newest tokens.
NEWEST = 3

Table = dict[str, Any]


def by_of(requester: str) -> Author:
    return Author("a client", "192.0.2.3", requester)


class TokenUsers:
    """`story` lets some users act. As always, the controller validates against uncommitted changes, too."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._draw = Random(f"tokens {seed}")
        # All tokens that were ever created: users also ask for removed ones.
        self._made: list[str] = ["none"]
        self._removed: set[str] = set()
        # The committed tokens, and the author of the newest change since then.
        self._committed: Table = {}
        self._authors: dict[str, Author] = {}

    def is_due(self, chance: float) -> bool:
        return self._draw.random() < chance

    def forget(self) -> None:
        """Drop the newest operations."""
        self._removed.clear()
        self._authors.clear()

    def committed(self, events: Iterable[Event]) -> None:
        """The events name the tokens that were created, renewed and expired, and the authors."""
        now = dict(self._world.cluster.image.tokens)
        wanted = set()
        for token_id in now.keys() | self._committed.keys():
            old, new = self._committed.get(token_id), now.get(token_id)
            if old != new:
                owner = (new if new is not None else self._committed[token_id]).owner
                wanted.add((token_id, owner, self._change(token_id, old, new), self._authors[token_id]))
        found = {
            (each.token_id, each.owner, each.change, author_of(event))
            for event in events
            if isinstance(event, DelegationTokensChanged)
            for each in event.tokens
        }
        assert found == wanted, f"the events say {found - wanted}, and should say {wanted - found}"
        self._committed = now
        self._authors.clear()

    def _change(self, token_id: str, old: Any, new: Any) -> str:
        if new is None:
            return "expired" if self._authors[token_id] == CLUSTER else "removed"
        if old is None:
            return "created"
        return "shortened" if new.expiration_timestamp < old.expiration_timestamp else "renewed"

    def story(self) -> None:
        for _ in range(STEPS):
            self._world.cluster.wall_ms += self._draw.choice([0, 0, 1, 500, 2_000])
            kind = self._draw.choice(["create", "renew", "renew", "expire", "sweep", "commit", "commit"])
            if kind == "commit":
                self._world._commit()
            else:
                getattr(self, f"_{kind}")()

    def _operate(self, kind: str, operation: Operation[Any]) -> tuple[Any, Table, Table]:
        before = dict(self._world.cluster.controller.state.tokens)
        reply = self._world.operate(Act(kind, ()), operation)
        after = dict(self._world.cluster.controller.state.tokens)
        for token_id, token in after.items():
            assert token.issue_timestamp <= token.expiration_timestamp <= token.max_timestamp, token
            assert token.max_timestamp <= token.issue_timestamp + LIFETIME_MS, f"it lives longer than allowed: {token}"
            assert token_id not in self._removed, f"a token that was removed is back: {token}"
        self._removed |= before.keys() - after.keys()
        by = getattr(operation, "by", CLUSTER)
        # A renewal to the same time is also a change, although it has no visible effect.
        changed = {each for each in before.keys() | after.keys() if before.get(each) is not after.get(each)}
        self._authors |= dict.fromkeys(changed, by)
        return reply, before, after

    def _token(self) -> str:
        return self._draw.choice(self._made[-NEWEST:] if self._draw.random() < 0.85 else self._made)

    def _user(self) -> str:
        return self._draw.choice(USERS)

    def _create(self) -> None:
        request = messages.CreateDelegationTokenRequest
        renewers = [request.CreatableRenewers(principal_type="User", principal_name=name) for name in ("b",)]
        asked = request(max_lifetime_ms=self._draw.choice([-1, 0, 2_000, 10**9]), renewers=renewers)
        if self._draw.random() < 0.3:
            asked.owner_principal_type = self._draw.choice(["User", "User", "Group"])
            asked.owner_principal_name = "c"
        requester, now_ms = self._user(), self._world.cluster.wall_ms
        reply, before, after = self._operate("create token", CreateToken(asked, by_of(requester)))
        made = after.keys() - before.keys()
        if asked.owner_principal_type == "Group":
            assert reply.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE, reply
            assert before == after
            return
        assert (reply.error_code, made) == (0, {reply.token_id}), reply
        token = after[reply.token_id]
        assert token.owner == ("User:c" if asked.owner_principal_name else requester), token
        assert (token.requester, token.renewers, token.issue_timestamp) == (requester, ["User:b"], now_ms), token
        assert reply.hmac == tokens.hmac_of(SECRET_KEY, reply.token_id)
        assert (reply.expiry_timestamp_ms, reply.max_timestamp_ms) == (token.expiration_timestamp, token.max_timestamp)
        self._made.append(reply.token_id)
        self._world.counts["token"] += 1

    def _renew(self) -> None:
        token_id, requester, now_ms = self._token(), self._user(), self._world.cluster.wall_ms
        period_ms = self._draw.choice([-1, 0, 100, 3_000, 10**9])
        asked = messages.RenewDelegationTokenRequest(
            hmac=tokens.hmac_of(SECRET_KEY, token_id), renew_period_ms=period_ms
        )
        reply, before, after = self._operate("renew token", RenewToken(asked, by_of(requester)))
        old = before.get(token_id)
        error = self._error(old, requester, now_ms, may_be_over=False)
        assert reply.error_code == error, f"{requester} renews {old} at {now_ms}: {reply}"
        self._changed(old, after.get(token_id), before, after, is_refused=bool(error))
        if old is not None and not error:
            expiry_ms = min(old.max_timestamp, now_ms + (min(period_ms, PERIOD_MS) if period_ms > 0 else PERIOD_MS))
            assert after[token_id].expiration_timestamp == reply.expiry_timestamp_ms == expiry_ms, reply
            self._world.counts["token renewed"] += 1

    def _expire(self) -> None:
        token_id, requester, now_ms = self._token(), self._user(), self._world.cluster.wall_ms
        period_ms = self._draw.choice([-1, 0, 100, 10**9])
        asked = messages.ExpireDelegationTokenRequest(
            hmac=tokens.hmac_of(SECRET_KEY, token_id), expiry_time_period_ms=period_ms
        )
        reply, before, after = self._operate("expire token", ExpireToken(asked, by_of(requester)))
        old = before.get(token_id)
        error = self._error(old, requester, now_ms, may_be_over=period_ms < 0)
        assert reply.error_code == error, f"{requester} ends {old} at {now_ms} in {period_ms}: {reply}"
        self._changed(old, after.get(token_id), before, after, is_refused=bool(error))
        if old is not None and not error:
            if period_ms < 0:
                assert token_id not in after
            else:
                assert after[token_id].expiration_timestamp == min(old.max_timestamp, now_ms + period_ms)

    def _sweep(self) -> None:
        now_ms = self._world.cluster.wall_ms
        reply, before, after = self._operate("sweep tokens", SweepTokens())
        over = {each for each, token in before.items() if now_ms > token.expiration_timestamp}
        assert before.keys() - after.keys() == over, f"swept at {now_ms}: {before.keys() - after.keys()}, not {over}"
        assert reply is False
        self._world.counts["token swept"] += len(over)

    def _error(self, token: Any, requester: str, now_ms: int, *, may_be_over: bool) -> ErrorCode:
        if token is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        if now_ms > token.expiration_timestamp and not may_be_over:
            return ErrorCode.DELEGATION_TOKEN_EXPIRED
        if requester not in (token.owner, *token.renewers):
            return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        return ErrorCode.NONE

    def _changed(self, old: Any, new: Any, before: Table, after: Table, *, is_refused: bool) -> None:
        """Only the time of this one token, and nothing where it was refused."""
        others = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
        if is_refused:
            assert not others, f"refused, and done: {others}"
            return
        assert others <= {old.token_id}, f"others have changed: {others}"
        if new is not None:
            for name in ("owner", "requester", "renewers", "issue_timestamp", "max_timestamp"):
                assert getattr(old, name) == getattr(new, name), f"{name} has changed: {old} {new}"
