"""The external view of a failure, on the time line of the clients: the metadata and quorum that the other nodes show,
and the logs of our nodes.

All times are milliseconds of the system's clock since the failure.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from typing import Final

from bench.targets.brokers import Address
from bench.wire import protocol
from bench.wire.cluster_requests import active_controller, metadata

# The pause between two requests to a node.
POLL_S: Final = 0.004
REQUEST_S: Final = 60.0

# The events in the logs of our nodes that begin the phases of a failover, in their order. The first node counts.
LOGGED: Final = {
    "suspected": "the connection to a node ended",
    "broker_dead": "a broker is gone",
    "broker_refuses": "a broker on another host refuses",
    "controller_dead": "the active controller is gone",
    "controller_elected": "this node is the active controller",
    "silent": "a broker stands still",
    "controller_silent": "the active controller stands still",
    "fencing": "fencing brokers",
}
_TIME = re.compile(r"^time=(\S+)Z .*?event=(\"[^\"]*\"|\S+)")


class Watcher(threading.Thread):
    """Queries one node repeatedly until it shows leaders other than the failed brokers, and another active controller.

    `leaders_ms` and `controller_ms` are the times of these; None before. `over` ends it.
    """

    def __init__(self, address: Address, topic: str, victims: Collection[int], began_us: int) -> None:
        super().__init__(name=f"watcher-{address[1]}", daemon=True)
        self.address, self.topic, self.victims, self.began_us = address, topic, {*victims, -1}, began_us
        self.leaders_ms: float | None = None
        self.controller_ms: float | None = None
        self.over = threading.Event()

    def run(self) -> None:
        while not self._is_done():
            with suppress(OSError, protocol.ProtocolError), protocol.Client(self.address, REQUEST_S) as client:
                while not self._is_done():
                    self._look(client)
                    self.over.wait(POLL_S)
            self.over.wait(POLL_S)

    def _is_done(self) -> bool:
        return self.over.is_set() or (self.leaders_ms is not None and self.controller_ms is not None)

    def _look(self, client: protocol.Client) -> None:
        if self.leaders_ms is None:
            partitions = metadata(client, self.topic).partitions.values()
            if partitions and not self.victims & {each.leader for each in partitions}:
                self.leaders_ms = self._now_ms()
        if self.controller_ms is None and active_controller(client) not in self.victims:
            self.controller_ms = self._now_ms()

    def _now_ms(self) -> float:
        return (time.time_ns() // 1000 - self.began_us) / 1000


def logged_ms(log: str, began_us: int) -> dict[str, float]:
    """Return the time of the first occurrence of each of LOGGED in a node's log since the failure."""
    found: dict[str, float] = {}
    for line in log.splitlines():
        match = _TIME.match(line)
        if match is None:
            continue
        at_ms = datetime.fromisoformat(match[1] + "+00:00").timestamp() * 1000 - began_us / 1000
        for phase, text in LOGGED.items():
            # The time of a line is truncated to milliseconds.
            if at_ms > -1 and text in match[2]:
                found.setdefault(phase, at_ms)
    return found
