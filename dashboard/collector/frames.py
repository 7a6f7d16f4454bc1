"""Frames: the state of a panel at one time, encoded at most once whole and once as a patch for all viewers.

A frame is one JSON text:

{"key": text, "seq": number, "at_ms": ms, "age_ms": ms or null, "error": text, "absent": bool,
 "data": {...} or "patch": {...}}

`key` names the channel with its parameters; `seq` counts the frames of a key, and a patch applies to the frame before
it. `age_ms` is the age of the data at the time `at_ms` (wall clock of the dashboard), null before the first data.
`error` says why there is no newer data; the last data is sent with it. `absent`: the data comes from a topic that only
broker-cy writes, and this cluster does not have it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from dashboard.collector.patches import State, patch_of


class Health(NamedTuple):
    """How current the data of a channel is."""

    age_ms: int | None = None
    error: str = ""
    is_absent: bool = False


class Frame:
    """One state of a channel. Its encoded forms are made when the first viewer needs them."""

    __slots__ = ("_before", "_patch", "_whole", "at_ms", "health", "key", "seq", "state")

    def __init__(
        self, key: str, seq: int, at_ms: int, health: Health, state: State | None, before: State | None = None
    ) -> None:
        self.key = key
        self.seq = seq
        self.at_ms = at_ms
        self.health = health
        self.state = state
        self._before = before
        self._whole: bytes | None = None
        self._patch: bytes | None = None

    def whole(self) -> bytes:
        if self._whole is None:
            self._whole = self._encoded("data", self.state)
        return self._whole

    def after(self, seq: int) -> bytes:
        """Return the frame for a viewer that has frame `seq`: as a patch if that is the one before this."""
        if seq != self.seq - 1 or self._before is None or self.state is None:
            return self.whole()
        if self._patch is None:
            patch = patch_of(self._before, self.state)
            self._patch = self.whole() if patch is None else self._encoded("patch", patch)
        return self._patch

    def _encoded(self, member: str, value: Any) -> bytes:
        health = self.health
        return orjson.dumps(
            {
                "key": self.key,
                "seq": self.seq,
                "at_ms": self.at_ms,
                "age_ms": health.age_ms,
                "error": health.error,
                "absent": health.is_absent,
                member: value,
            },
            option=orjson.OPT_NON_STR_KEYS,
        )
