"""WebSocket viewers of the dashboard as a separate process: `python -m bench.studies.dashboard_viewers`.

Each viewer is one connection to `/live` with the subscriptions of one page, as a browser tab has them (the protocol is
described in dashboard/live/socket.py). Viewers read frames and keep only counts. They are plain asyncio protocols,
because 2,000 connections of a WebSocket library would use more of a shared core than the measured process.

The process reads the subscriptions as JSON from standard input ([{"channel", "params"}, ...]), connects, prints a line
{"connected": number} when every subscription of each viewer has received a frame, counts until its standard input ends,
and prints {"seconds", "messages", "payload_bytes", "wire_bytes", "dropped", "lost", "refused"}. `payload_bytes` are
those of messages, `wire_bytes` those of the connection; `lost` are viewers whose connection ended.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

# Connections that are opened concurrently.
AT_ONCE = 50
CONNECT_TIMEOUT_S = 120.0
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_DROPPED = re.compile(rb'\{"dropped":([0-9]+)\}')
_KEY = re.compile(rb'"key":"((?:[^"\\]|\\.)*)"')
_SUBSCRIBED = b'{"subscribed":'


def masked(opcode: int, payload: bytes) -> bytes:
    """Return a complete frame of a client. RFC 6455 requires a mask; a mask of zeros does not change the payload."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size)
    return head + bytes(4) + payload


class Frames:
    """Splits the bytes of a server into frames: `feed` returns (opcode, payload) of each complete one."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        rest = self._rest
        rest += data
        found: list[tuple[int, bytes]] = []
        at = 0
        while len(rest) - at >= 2:
            size, start = rest[at + 1] & 0x7F, at + 2
            if size >= 126:
                width = 2 if size == 126 else 8
                if len(rest) < start + width:
                    break
                size = int.from_bytes(rest[start : start + width], "big")
                start += width
            if len(rest) < start + size:
                break
            found.append((rest[at] & 0x0F, bytes(rest[start : start + size])))
            at = start + size
        del rest[:at]
        return found


class Viewer(asyncio.Protocol):
    """One connection. Counts start again with `reset`."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._transport: asyncio.Transport | None = None
        self._head: bytearray | None = bytearray()
        self._frames = Frames()
        # Keys of the subscriptions that have received no frame yet; None once each has.
        self._waiting: set[bytes] | None = set()
        self._subscribed = 0
        self.dropped = 0
        self.refused = 0
        self.is_lost = False
        self._dropped_before = 0
        self.reset()

    def reset(self) -> None:
        self.messages = self.payload_bytes = self.wire_bytes = 0
        self._dropped_before = self.dropped

    @property
    def dropped_since(self) -> int:
        """Frames that the dashboard skipped for this viewer since `reset`."""
        return self.dropped - self._dropped_before

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._crowd.upgrade)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._crowd.settled()

    def close(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.write(masked(_CLOSE, struct.pack(">H", 1000)))
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self.wire_bytes += len(data)
        if self._head is not None:
            self._head += data
            head, found, data = bytes(self._head).partition(b"\r\n\r\n")
            if not found:
                return
            self._head = None
            assert self._transport is not None
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                self._transport.close()
                return
            self._transport.write(b"".join(masked(_TEXT, each) for each in self._crowd.requests))
        for opcode, payload in self._frames.feed(data):
            self._take(opcode, payload)

    def _take(self, opcode: int, payload: bytes) -> None:
        assert self._transport is not None
        if opcode == _PING:
            self._transport.write(masked(_PONG, payload))
        elif opcode in (_TEXT, _BINARY):
            self.messages += 1
            self.payload_bytes += len(payload)
            if self._waiting is not None:
                self._note(payload)
            if found := _DROPPED.search(payload[:64]):
                self.dropped = int(found[1])

    def _note(self, payload: bytes) -> None:
        """Note which subscriptions have received a frame, until all have."""
        assert self._waiting is not None
        for line in payload.split(b"\n"):
            key = _KEY.search(line)
            if line.startswith(b'{"refused":'):
                self.refused += 1
                self._subscribed += 1
            elif key is not None and line.startswith(_SUBSCRIBED):
                self._subscribed += 1
                self._waiting.add(key[1])
            elif key is not None:
                self._waiting.discard(key[1])
        if self._subscribed == len(self._crowd.requests) and not self._waiting:
            self._waiting = None
            self._crowd.settled()

    @property
    def is_settled(self) -> bool:
        return self.is_lost or self._waiting is None


class Crowd:
    """All viewers of one process."""

    def __init__(self, url: str, cluster: str, subscriptions: Sequence[Mapping[str, Any]]) -> None:
        place = urlsplit(url)
        self._host, self._port = place.hostname or "127.0.0.1", place.port or 80
        self.requests = [
            json.dumps({"subscribe": {"id": f"s{number}", "cluster": cluster, **each}}).encode()
            for number, each in enumerate(subscriptions)
        ]
        key = base64.b64encode(os.urandom(16)).decode()
        self.upgrade = (
            f"GET /live HTTP/1.1\r\nHost: {place.netloc}\r\nOrigin: {url}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        ).encode()
        self.viewers: list[Viewer] = []
        self._settled = asyncio.Event()

    def settled(self) -> None:
        self._settled.set()

    async def connect(self, amount: int) -> None:
        """Open `amount` more connections, and wait until each has its frames. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            while len(self.viewers) < amount:
                size = min(AT_ONCE, amount - len(self.viewers))
                made = await asyncio.gather(
                    *(loop.create_connection(lambda: Viewer(self), self._host, self._port) for _ in range(size))
                )
                batch = [viewer for _, viewer in made]
                self.viewers += batch
                while not all(viewer.is_settled for viewer in batch):
                    self._settled.clear()
                    await self._settled.wait()

    def counts(self) -> dict[str, int]:
        """Return the sums of what the viewers received since they were reset."""
        return {
            "messages": sum(each.messages for each in self.viewers),
            "payload_bytes": sum(each.payload_bytes for each in self.viewers),
            "wire_bytes": sum(each.wire_bytes for each in self.viewers),
            "dropped": sum(each.dropped_since for each in self.viewers),
            "lost": sum(each.is_lost for each in self.viewers),
            "refused": sum(each.refused for each in self.viewers),
        }


async def _run(url: str, cluster: str, amount: int) -> None:
    loop = asyncio.get_running_loop()
    crowd = Crowd(url, cluster, json.loads(await loop.run_in_executor(None, sys.stdin.readline)))
    await crowd.connect(amount)
    for viewer in crowd.viewers:
        viewer.reset()
    begun_s = time.perf_counter()
    print(json.dumps({"connected": sum(not each.is_lost for each in crowd.viewers)}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps({"seconds": time.perf_counter() - begun_s, **crowd.counts()}), flush=True)
    for viewer in crowd.viewers:
        viewer.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.studies.dashboard_viewers", description=__doc__)
    parser.add_argument("url", help="address of the dashboard, such as http://127.0.0.1:8050")
    parser.add_argument("cluster")
    parser.add_argument("viewers", type=int)
    given = parser.parse_args()
    asyncio.run(_run(given.url.rstrip("/"), given.cluster, given.viewers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
