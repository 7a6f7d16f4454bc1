"""A viewer: one browser tab with its subscriptions, and one slot for each of them.

A slot holds no frame, only the note that its channel has a newer one than the tab. Frames are never queued: a slow tab
skips frames, which are counted, and then receives the newest one. It never delays other viewers.

Frames that are new at nearly the same time are sent in one message, one line each: most of the cost of a viewer is that
of a message, regardless of its size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from broker_cy.client.errors import ClientError, Failure
from dashboard.collector.channel import channel_class
from dashboard.collector.hub import ClusterHub
from dashboard.collector.live_channel import LiveChannel
from dashboard.security.roles import Identity, decide

# Subscriptions of one tab: panels, and the blocks of rows of its tables.
SUBSCRIPTIONS_MAX = 40
# Bytes of a message of a browser.
MESSAGE_BYTES_MAX = 16 << 10
# Replies that wait for a tab that sends but does not read; beyond this, its connection is closed.
MESSAGES_WAITING_MAX = 200
# The panels of a page are computed one after the other when a sample arrives; their frames wait this long for each
# other.
GATHER_S = 0.03
# Bytes after which a message ends. A frame is never divided, so a message may be larger by one frame.
LINES_BYTES_MAX = 64 << 10
# Messages of a tab in one second, and at once; further ones wait. Fast scrolling subscribes 25 blocks a second.
MESSAGES_PER_S = 30.0
MESSAGES_AT_ONCE = 120
# A tab may request a refresh of its clusters at this interval.
REFRESH_S = 1.0
Send = Callable[[bytes], Awaitable[None]]


class Gatherer:
    """Wakes viewers GATHER_S after the first of them was offered a frame: one timer for all, because a sample concerns
    most of them.
    """

    def __init__(self) -> None:
        self._wakes: set[asyncio.Event] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wake: asyncio.Event) -> None:
        self._wakes.add(wake)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        wakes, self._wakes = self._wakes, set()
        for wake in wakes:
            wake.set()


class Viewer:
    """One tab. `dropped` counts the frames that it skipped. `sending_since_s` is the loop time at which the current
    message began to be sent; None between messages.
    """

    def __init__(
        self, identity: Identity, hubs: Mapping[str, ClusterHub], send: Send, gatherer: Gatherer | None = None
    ) -> None:
        self.identity = identity
        self._hubs = hubs
        self._send = send
        self._gatherer = gatherer or Gatherer()
        self.sending_since_s: float | None = None
        self._tokens = float(MESSAGES_AT_ONCE)
        self._admitted_s = self._refreshed_s = float("-inf")
        # Subscriptions by the id that the tab chose.
        self._watched: dict[str, tuple[ClusterHub, LiveChannel]] = {}
        self._requests: dict[str, tuple[str, str, dict[str, str]]] = {}
        self._sent: dict[str, int] = {}
        self._waiting: dict[str, LiveChannel] = {}
        self._replies: list[dict[str, Any]] = []
        self._wake = asyncio.Event()
        self.is_paused = False
        self.dropped = 0
        self._dropped_told = 0

    def offer(self, live: LiveChannel) -> None:
        if live.key in self._waiting:
            self.dropped += 1
        self._waiting[live.key] = live
        self._gatherer.add(self._wake)

    async def run(self) -> None:
        """Send new frames until the connection fails."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting or self._replies:
                if lines := self._lines():
                    self.sending_since_s = loop.time()
                    await self._send(b"\n".join(lines))
                    self.sending_since_s = None

    def _lines(self) -> list[bytes]:
        """Return the lines of the next message. Replies are first: a key must be known before its first frame."""
        replies, self._replies = self._replies, []
        lines = [orjson.dumps(reply) for reply in replies]
        size = 0
        while self._waiting and size < LINES_BYTES_MAX:
            key = next(iter(self._waiting))
            frame = self._waiting.pop(key).frame
            if frame is None:
                continue
            lines.append(frame.after(self._sent.get(key, -2)))
            self._sent[key] = frame.seq
            size += len(lines[-1])
        if not self._waiting and self.dropped != self._dropped_told:
            self._dropped_told = self.dropped
            lines.append(orjson.dumps({"dropped": self.dropped}))
        return lines

    def close(self) -> None:
        for hub, live in self._watched.values():
            hub.unwatch(live, self)
        self._watched.clear()
        self._waiting.clear()

    async def admit(self) -> None:
        """Wait until the tab may send its next message: a script that sends without end must not occupy the loop."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._tokens = min(MESSAGES_AT_ONCE, self._tokens + (now_s - self._admitted_s) * MESSAGES_PER_S) - 1
        self._admitted_s = now_s
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / MESSAGES_PER_S)

    def take(self, text: str | bytes) -> None:
        """Handle a message of the browser. An error in it is reported in a reply and changes nothing else.

        Raises ConnectionError if the tab sends without reading the replies.
        """
        try:
            message = orjson.loads(text)
            if not isinstance(message, dict) or len(message) != 1:
                raise ClientError(Failure.INVALID, "an object with one member is expected")
            ((kind, value),) = message.items()
            if kind == "subscribe":
                self._subscribe(value)
            elif kind == "unsubscribe":
                self._unsubscribe(value)
            elif kind == "pause" and isinstance(value, bool):
                self._pause(value)
            elif kind == "refresh":
                self._refresh()
            else:
                raise ClientError(
                    Failure.INVALID, f"{str(kind)[:40]!r}: expected subscribe, unsubscribe, pause or refresh"
                )
        except orjson.JSONDecodeError as error:
            self._reply({"refused": "", "reason": f"not JSON: {error}"})
        except ClientError as error:
            self._reply({"refused": "", "reason": error.reason})

    def _reply(self, reply: dict[str, Any]) -> None:
        if len(self._replies) >= MESSAGES_WAITING_MAX:
            raise ConnectionError(f"{MESSAGES_WAITING_MAX} replies wait for a tab that reads nothing")
        self._replies.append(reply)
        self._wake.set()

    def _subscribe(self, value: Any) -> None:
        if not isinstance(value, dict) or not isinstance(value.get("id"), str) or not 0 < len(value["id"]) <= 200:
            raise ClientError(Failure.INVALID, "subscribe: an object with id, cluster, channel and params is expected")
        name, cluster, params = value.get("channel"), value.get("cluster"), value.get("params", {})
        place = value["id"]
        try:
            if not isinstance(name, str) or not isinstance(cluster, str) or not isinstance(params, dict):
                raise ClientError(Failure.INVALID, "cluster and channel must be texts, and params an object")
            if not all(isinstance(key, str) and isinstance(each, str) for key, each in params.items()):
                raise ClientError(Failure.INVALID, "parameters must be texts")
            self._watch(place, cluster, name, params)
        except ClientError as error:
            self._drop(place)
            self._reply({"refused": place, "reason": error.reason})

    def _watch(self, place: str, cluster: str, name: str, params: dict[str, str]) -> None:
        reason = decide(self.identity, channel_class(name).need(cluster, params))
        if reason:
            raise ClientError(Failure.REFUSED, reason)
        hub = self._hubs.get(cluster)
        if hub is None:
            raise ClientError(Failure.INVALID, f"unknown cluster {cluster!r}; known: {', '.join(self._hubs)}")
        if place not in self._requests and len(self._requests) >= SUBSCRIPTIONS_MAX:
            raise ClientError(Failure.INVALID, f"a tab may have {SUBSCRIPTIONS_MAX} subscriptions")
        self._drop(place)
        self._requests[place] = (cluster, name, params)
        if self.is_paused:
            return
        live = hub.watch(name, params, self.identity.scope, self)
        self._watched[place] = (hub, live)
        # The key is sent before its first frame.
        self._reply({"subscribed": place, "key": live.key})
        self._sent.pop(live.key, None)
        if live.frame is not None:
            self._waiting[live.key] = live

    def _unsubscribe(self, value: Any) -> None:
        if not isinstance(value, str):
            raise ClientError(Failure.INVALID, "unsubscribe: the id of a subscription is expected")
        self._drop(value)

    def _drop(self, place: str) -> None:
        self._requests.pop(place, None)
        watched = self._watched.pop(place, None)
        if watched is None:
            return
        hub, live = watched
        # Two panels of a tab may show the same channel.
        if all(other is not live for _, other in self._watched.values()):
            hub.unwatch(live, self)
            self._waiting.pop(live.key, None)
            self._sent.pop(live.key, None)

    def _pause(self, is_paused: bool) -> None:
        """While a tab is hidden nothing is computed for it; afterwards it receives whole frames."""
        if is_paused == self.is_paused:
            return
        self.is_paused = is_paused
        if is_paused:
            for hub, live in self._watched.values():
                hub.unwatch(live, self)
            self._watched.clear()
            self._waiting.clear()
            self._sent.clear()
            return
        for place, (cluster, name, params) in list(self._requests.items()):
            self._subscribe({"id": place, "cluster": cluster, "channel": name, "params": params})

    def _refresh(self) -> None:
        """Refresh the clusters that this tab shows."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._refreshed_s < REFRESH_S:
            return
        self._refreshed_s = now_s
        for hub in {hub for hub, _ in self._watched.values()}:
            hub.session.refresh()
