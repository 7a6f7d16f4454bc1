"""Users that open connections: `connection-storm`.

Each operation opens one, sends the requests of the scenario, and keeps it open for `hold`. A user that has
`connections` of them waits until one is closed. Without a rate and with a long `hold`, the result is N idle
connections. Connections are opened within a user because locust spawns users too slowly.

Counts in the book: `connections closed by a broker` while they were held.
"""

from __future__ import annotations

import time
from collections import deque

import gevent
from gevent.event import Event

from broker_cy.wire import messages
from loadgen.net.cluster import RETRY_S, error_name
from loadgen.net.connection import Connection, NetError, connect
from loadgen.net.files import allow_files
from loadgen.users.base import LOOK_S, LoadUser
from loadgen.users.settings import Connecting, settings_of

CLOSED = "connections closed by a broker"
METADATA_BY_NAME = 12


class ConnectionStorm(LoadUser):
    """Opens connections and holds them."""

    abstract = True

    def connect(self) -> None:
        self._settings = settings_of(Connecting, self.spec)
        allow_files(self.shared.work.share.users * self._settings.connections)
        # The open connections, the oldest first, with the time of closing.
        self._held: deque[tuple[float, Connection]] = deque()
        self._freed = Event()
        self._changed = Event()
        self._client_id = f"broker-load-{self.spec.name}-{self.place}"
        self._at = self.place
        # The brokers of the cluster; a connection without requests also needs their versions.
        cluster = self.new_cluster()
        try:
            cluster.refresh([])
            self._addresses = cluster.addresses()
            self._versions = cluster.any().versions
        finally:
            cluster.close()
        self._closer = gevent.spawn(self._close_held)

    def perform(self, due_ns: int) -> None:
        while len(self._held) >= self._settings.connections:
            if self.is_over:
                return
            self._freed.clear()
            self._freed.wait(LOOK_S)
        sent_ns = time.monotonic_ns()
        self._at += 1
        address = self._addresses[self._at % len(self._addresses)]
        try:
            connection = connect(address, self._client_id, self.load.plan.scenario.timeout_s, negotiate=False)
        except NetError as error:
            self.meter("Connect").failed(error.name, due_ns, sent_ns, time.monotonic_ns())
            gevent.sleep(RETRY_S)
            return
        self.meter("Connect").done(due_ns, sent_ns, time.monotonic_ns())
        if self._ask(connection):
            self._held.append((time.monotonic() + self._settings.hold, connection))
            self._changed.set()
        else:
            connection.close()
            gevent.sleep(RETRY_S)

    def _ask(self, connection: Connection) -> bool:
        """Send the requests of a new connection; returns whether they were answered."""
        kind = self._settings.request
        if kind == "none":
            return True
        meter = self.meter("ApiVersions" if kind == "api-versions" else "Metadata")
        sent_ns = time.monotonic_ns()
        try:
            if kind == "api-versions":
                connection.negotiate()
            else:
                connection.versions = self._versions
                wanted = messages.MetadataRequest.MetadataRequestTopic(name=self.load.plan.scenario.topic.name)
                request = messages.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
                answer = connection.call(request, messages.MetadataResponse, at_most=METADATA_BY_NAME)
                if code := answer.topics[0].error_code:
                    meter.failed(error_name(code), sent_ns, sent_ns, time.monotonic_ns())
                    return False
        except NetError as error:
            meter.failed(error.name, sent_ns, sent_ns, time.monotonic_ns())
            return False
        meter.done(sent_ns, sent_ns, time.monotonic_ns())
        return True

    def _close_held(self) -> None:
        """Close each connection when its time is over."""
        while True:
            self._changed.clear()
            if not self._held:
                self._changed.wait()
                continue
            until_s, connection = self._held[0]
            left_s = until_s - time.monotonic()
            if left_s > 0:
                gevent.sleep(left_s)
                continue
            self._held.popleft()
            self._freed.set()
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        if connection.closed is not None:
            self.load.book.count(CLOSED)
        connection.close()

    def disconnect(self) -> None:
        if hasattr(self, "_closer"):
            self._closer.kill()
            while self._held:
                self._end(self._held.popleft()[1])
