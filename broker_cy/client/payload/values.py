"""The values of records, generated from a seed: the same seed and user give the same values in every process.

A `ValueSource` is created once per process and entry of users, with a bounded pool of values; each user has a cursor
with its own start. Only JSON with a clock, a sequence or a UUID is built for each record.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Protocol

from broker_cy.client.payload.draws import Size, draw, value
from broker_cy.client.payload.settings import Payload

# The pool of a process and entry. The minimum number is for large values: 40 MiB for values of 10 MiB.
POOL_BYTES = 4 << 20
POOL_VALUES_MIN, POOL_VALUES_MAX = 4, 20_000
# Users begin this far apart in the pool, as a share of it: the golden ratio spreads any number of them evenly.
_APART = 0.6180339887498949
_LETTERS = string.ascii_letters + string.digits
# The placeholder for a part of JSON that is generated for each record: no other text has this character.
_HOLE = "\x00"


class Values(Protocol):
    """An endless sequence of one user's values."""

    def next(self) -> bytes:
        """Return the next value, without the prefix."""


class ValueSource:
    """The values of several users. `prefix_bytes` is the size of a prefix that the caller adds, and that the sizes of
    the payload include.
    """

    def __init__(self, payload: Payload, seed: int, *, now: Callable[[], float], prefix_bytes: int = 0) -> None:
        """`now` returns the time of the timestamps in JSON, in seconds since 1970."""
        self._seed = seed
        self._now = now
        self._makers: list[Callable[[random.Random], Callable[[], bytes]]] = []
        source = random.Random(f"values {seed}")
        if payload.kind in ("file", "schema"):
            self._pool = list(payload.lines)
        elif payload.kind == "json":
            self._pool = self._json_pool(payload, source)
        else:
            least, most = (payload.size, payload.size) if payload.kind == "fixed" else (payload.least, payload.most)
            sizes = Size(least, most, payload.distribution)
            self._pool = _pool(lambda: value(source, draw(source, sizes) - prefix_bytes, payload.entropy))

    def cursor(self, user: int) -> Values:
        """Return the values of a user, whose number is unique in the run."""
        start = int((user * _APART % 1.0) * len(self._pool))
        if not self._makers:
            return _Cursor(self._pool, start)
        draws = random.Random(f"values {self._seed} of {user}")
        return _JsonCursor(self._pool, start, [make(draws) for make in self._makers])

    def _json_pool(self, payload: Payload, source: random.Random) -> list[bytes]:
        """Return texts of the whole objects, with %b for the parts that are generated for each record."""
        made = {"uuid": _uuids, "timestamp": self._timestamps, "sequence": _sequences}
        pooled: dict[str, Callable[[], Any]] = {}
        for name, field in payload.fields.items():
            if field["kind"] in made:
                self._makers.append(made[field["kind"]](field))
            else:
                pooled[name] = _DRAWS[field["kind"]](field, source)

        def whole() -> bytes:
            parts = []
            for name in payload.fields:
                text = json.dumps(pooled[name](), ensure_ascii=False) if name in pooled else _HOLE
                parts.append(f"{json.dumps(name, ensure_ascii=False)}:{text}")
            encoded = ("{" + ",".join(parts) + "}").encode()
            return encoded.replace(b"%", b"%%").replace(_HOLE.encode(), b"%b") if self._makers else encoded

        return _pool(whole)

    def _timestamps(self, field: dict[str, Any]) -> Callable[[random.Random], Callable[[], bytes]]:
        now, form = self._now, field["format"]

        def iso() -> bytes:
            text = datetime.fromtimestamp(now(), UTC).isoformat(timespec="milliseconds")
            return b'"%s"' % text.replace("+00:00", "Z").encode()

        forms: dict[str, Callable[[], bytes]] = {
            "ms": lambda: b"%d" % (now() * 1000),
            "s": lambda: b"%d" % now(),
            "iso": iso,
        }
        return lambda _: forms[form]


def _pool(make: Callable[[], bytes]) -> list[bytes]:
    made: list[bytes] = []
    left = POOL_BYTES
    while (left > 0 and len(made) < POOL_VALUES_MAX) or len(made) < POOL_VALUES_MIN:
        made.append(make())
        left -= len(made[-1])
    return made


class _Cursor:
    __slots__ = ("_at", "_count", "_pool")

    def __init__(self, pool: list[bytes], start: int) -> None:
        self._pool, self._at, self._count = pool, start, len(pool)

    def next(self) -> bytes:
        at = self._at
        self._at = at + 1 if at + 1 < self._count else 0
        return self._pool[at]


class _JsonCursor(_Cursor):
    __slots__ = ("_makers",)

    def __init__(self, pool: list[bytes], start: int, makers: list[Callable[[], bytes]]) -> None:
        super().__init__(pool, start)
        self._makers = makers

    def next(self) -> bytes:
        return super().next() % tuple([make() for make in self._makers])


def _uuids(field: dict[str, Any]) -> Callable[[random.Random], Callable[[], bytes]]:
    """Return a generator of version 4 UUIDs (RFC 9562)."""

    def of_user(draws: random.Random) -> Callable[[], bytes]:
        def make() -> bytes:
            text = b"%032x" % (draws.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 4 << 76 | 2 << 62)
            return b'"%b-%b-%b-%b-%b"' % (text[:8], text[8:12], text[12:16], text[16:20], text[20:])

        return make

    return of_user


def _sequences(field: dict[str, Any]) -> Callable[[random.Random], Callable[[], bytes]]:
    """Return a function that numbers the records of each user."""
    start, step = field["start"], field["step"]

    def of_user(_: random.Random) -> Callable[[], bytes]:
        number = start - step

        def make() -> bytes:
            nonlocal number
            number += step
            return b"%d" % number

        return make

    return of_user


def _ints(field: dict[str, Any], source: random.Random) -> Callable[[], int]:
    return lambda: source.randint(field["min"], field["max"])


def _floats(field: dict[str, Any], source: random.Random) -> Callable[[], float]:
    return lambda: round(source.uniform(field["min"], field["max"]), field["digits"])


def _choices(field: dict[str, Any], source: random.Random) -> Callable[[], Any]:
    cumulative = list(accumulate(field["weights"]))
    return lambda: source.choices(field["values"], cum_weights=cumulative)[0]


def _strings(field: dict[str, Any], source: random.Random) -> Callable[[], str]:
    return lambda: "".join(source.choices(_LETTERS, k=source.randint(field["min"], field["max"])))


def _constants(field: dict[str, Any], source: random.Random) -> Callable[[], Any]:
    return lambda: field["value"]


_DRAWS: dict[str, Callable[[dict[str, Any], random.Random], Callable[[], Any]]] = {
    "int": _ints,
    "float": _floats,
    "choice": _choices,
    "string": _strings,
    "constant": _constants,
}
