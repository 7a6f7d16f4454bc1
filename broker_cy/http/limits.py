"""Rate limits by key, such as failed logins by address and by user, and denials in an audit log.

The tables are bounded. A key that is forgotten because a table is full starts again; the key that was used the longest
time ago is forgotten first. Times are in seconds, of the clock that the caller gives.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from broker_cy.core.classes import dataclass

KEYS_MAX: Final = 20_000
# Failures without a delay; then 1, 2, 4, ... s.
FREE_FAILURES: Final = 5
DELAY_MAX_S: Final = 60.0
# One failure is forgotten in this time.
FORGET_S: Final = 60.0
# Further failures are not counted: forgetting them would take hours.
_FAILURES_MAX: Final = 20.0

Clock = Callable[[], float]


def address_key(address: str) -> str:
    """Return the key of a client's address: for IPv6 its /64, because one host has all of these addresses."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


@dataclass(slots=True)
class _Failed:
    count: float
    at_s: float


class Failures:
    """Failed attempts by key, and how long the next attempt must wait.

    An attempt counts as failed from its start, so that attempts at the same time do not evade the limit; `refund` takes
    it back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: OrderedDict[str, _Failed] = OrderedDict()

    def wait_s(self, key: str) -> int:
        """Return the seconds that the next attempt must wait, rounded up; 0: none."""
        failed = self._keys.get(key)
        if failed is None:
            return 0
        # Between two failures, a part of one is forgotten.
        count = math.ceil(failed.count)
        if count < FREE_FAILURES:
            return 0
        delay_s = min(DELAY_MAX_S, 2.0 ** (count - FREE_FAILURES))
        # A clock that was set back must not make the delay longer.
        return max(0, math.ceil(delay_s - max(0.0, self._clock() - failed.at_s)))

    def begin(self, key: str) -> None:
        """Count an attempt."""
        now_s = self._clock()
        failed = self._keys.pop(key, None) or _Failed(0.0, now_s)
        passed_s = max(0.0, now_s - failed.at_s)
        self._keys[key] = _Failed(min(_FAILURES_MAX, max(0.0, failed.count - passed_s / FORGET_S) + 1), now_s)
        if len(self._keys) > KEYS_MAX:
            self._keys.popitem(last=False)

    def refund(self, key: str) -> None:
        """Take back the attempt that `begin` counted: it succeeded, or was not made."""
        failed = self._keys.get(key)
        if failed is not None:
            failed.count = max(0.0, failed.count - 1)

    def clear(self, key: str) -> None:
        self._keys.pop(key, None)


class Buckets:
    """Token buckets by key: `burst` at once, then `per_minute`."""

    def __init__(self, clock: Clock, *, burst: int, per_minute: float) -> None:
        self._clock = clock
        self._burst = float(burst)
        self._per_s = per_minute / 60
        self._keys: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Take a token; return whether there was one."""
        now_s = self._clock()
        tokens, at_s = self._keys.pop(key, (self._burst, now_s))
        tokens = min(self._burst, tokens + max(0.0, now_s - at_s) * self._per_s)
        is_allowed = tokens >= 1
        self._keys[key] = (tokens - 1 if is_allowed else tokens, now_s)
        if len(self._keys) > KEYS_MAX:
            self._keys.popitem(last=False)
        return is_allowed


class KnownPlaces:
    """Pairs of users and addresses with an earlier successful login.

    The limit by user does not apply to them: otherwise any client could lock a user out with failed logins in the
    user's name.
    """

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[str, str], None] = OrderedDict()

    def note(self, name: str, address: str) -> None:
        self._pairs.pop((name, address), None)
        self._pairs[name, address] = None
        if len(self._pairs) > KEYS_MAX:
            self._pairs.popitem(last=False)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self._pairs
