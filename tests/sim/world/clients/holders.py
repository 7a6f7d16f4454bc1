"""A client that creates delegation tokens, logs in with them on each broker, and expires them.

A broker's knowledge of a token moves in one direction: unknown, valid, expired. After an expiration was acknowledged,
each broker sooner or later rejects the token, and the sessions that logged in with it. A broker rejects a token that
has expired by its own clock, whether the controller has removed the token or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import RETRIABLE, Client
from tests.sim.world.wire import Channel, Lost, NotLoggedIn, Token

if TYPE_CHECKING:
    from tests.sim.world.world import World

TOKENS_MAX = 3
# The lifetime of a token that expires by itself. The others live for a week; no clock of a world is set that far ahead.
SHORT_MS = 2_000
UNKNOWN, COUNTS, OVER = range(3)


class Held:
    """A token, and what each broker knows of it."""

    def __init__(self, token: Token, expires_ms: int, *, is_short: bool) -> None:
        self.token = token
        self.expires_ms = expires_ms
        self.is_short = is_short
        self.is_ended = False
        # By host: the least that its broker has shown to know, and a connection that has logged in.
        self.known: dict[str, int] = {}
        self.sessions: dict[str, Channel] = {}


class Holder(Client):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.held: list[Held] = []
        self.brokers = [each for each in world.machines if world.machines[each].is_broker]

    async def step(self) -> None:
        if len(self.held) < TOKENS_MAX and (not self.held or self.draw.chance(0.4)):
            await self._make()
        for _ in range(self.draw.randint(1, 4)):
            await self._try(self.draw.choice(self.held), self.draw.choice(self.brokers))
        lasting = [each for each in self.held if not each.is_short]
        if lasting and self.draw.chance(0.7):
            held = self.draw.choice(lasting)
            await self._end(held)
            # A later step asks a host that is down for longer than this one.
            for host in self.draw.sample(self.brokers, len(self.brokers) - 1):
                while await self._try(held, host) is not False:
                    await self.back_off()
            self.held.remove(held)
        # By then they were also tried after their expiration.
        now_ms = self.world.wall_ms()
        self.held = [each for each in self.held if not each.is_short or now_ms < each.expires_ms + SHORT_MS]
        self.successes += 1

    async def _make(self) -> None:
        is_short = self.draw.chance(0.3)
        request = m.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=SHORT_MS if is_short else -1)
        while True:
            answer = await self.ask(request, 3)
            if not answer.error_code:
                break
            assert answer.error_code in RETRIABLE, f"{self.name}: no token: {ErrorCode(answer.error_code).name}"
            await self.back_off()
        token = Token(answer.token_id, bytes(answer.hmac))
        self.held.append(Held(token, answer.expiry_timestamp_ms, is_short=is_short))
        self.world.note(f"{self.name} has a token")

    async def _end(self, held: Held) -> None:
        held.is_ended = True
        request = m.ExpireDelegationTokenRequest(hmac=held.token.hmac, expiry_time_period_ms=-1)
        while code := (await self.ask(request, 2)).error_code:
            # An answer was lost.
            if code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
                break
            assert code in RETRIABLE, f"{self.name}: the token cannot be ended: {ErrorCode(code).name}"
            await self.back_off()
        self.world.note(f"{self.name} has ended a token")

    async def _try(self, held: Held, host: str) -> bool | None:
        """Whether a broker lets the token log in; None if that does not show."""
        clock = self.world.machines[host].clock
        was_over = held.is_short and clock.given.wall_ms() >= held.expires_ms
        channel = Channel(self.world, self.name, host, token=held.token)
        try:
            await channel.open()
            await channel.send(m.MetadataRequest(topics=[], allow_auto_topic_creation=False), 13)
        except NotLoggedIn:
            return await self._refused(held, host)
        except Lost:
            channel.close()
            await self.back_off()
            return None
        assert not (was_over and clock.given.wall_ms() >= held.expires_ms), (
            f"{self.name}: {host} accepts a token whose time is over"
        )
        if not held.is_short:
            assert held.known.get(host, UNKNOWN) != OVER, f"{self.name}: {host} accepts a token that it had refused"
            held.known[host] = COUNTS
        if (before := held.sessions.get(host)) is not None:
            before.close()
        held.sessions[host] = channel
        return True

    async def _refused(self, held: Held, host: str) -> bool | None:
        if held.is_short:
            # When it is over depends on the clock of the host, which may be set.
            return None
        if held.known.get(host, UNKNOWN) == UNKNOWN and not held.is_ended:
            # It does not know the token yet.
            return None
        assert held.is_ended, f"{self.name}: {host} refuses a token that it had accepted"
        if held.known.get(host) == COUNTS:
            held.known[host] = OVER
            await self._check_session(held, host)
        return False

    async def _check_session(self, held: Held, host: str) -> None:
        """Sessions that logged in with the token before its end are no longer served."""
        channel = held.sessions.pop(host, None)
        if channel is None or channel.is_lost:
            return
        try:
            await channel.send(m.MetadataRequest(topics=[], allow_auto_topic_creation=False), 13)
        except Lost:
            return
        finally:
            channel.close()
        raise AssertionError(f"{self.name}: {host} serves a session whose token has ended")
