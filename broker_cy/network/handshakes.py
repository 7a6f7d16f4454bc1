"""TLS handshakes of connected clients, in worker threads and without the GIL, so that they never block the loop.

A handshake has one owner at a time: the loop waits for the peer (`add_reader`, `add_writer`), or a worker continues the
handshake. A handshake that ends while a worker owns it is closed when the worker is done.

A worker is one call of the pool that continues all waiting handshakes and reports their results together: in a storm,
one call and one wake-up of the loop per step would cost a quarter of the handshake.

Bounds: `brokercy.authentication.timeout.ms`, at most TIMEOUT_S_MAX, from the connection to the end of the handshake; as
many workers as its pool has, for which each handshake waits at most once; BEGUN_MAX sessions of peers that have sent
bytes: the oldest one is closed for a new one, unless a worker owns it. A peer that has sent no byte costs its
descriptor, which `max.connections` counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.openssl import FAILED, SHAKEN, WANTS_READ, TlsContext, TlsSession
from broker_cy.network.tls_transport import TlsTransport

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.network.transport import Transport

TIMEOUT_S_MAX: Final = 10.0
BEGUN_MAX: Final = 1_000


class Failure(NamedTuple):
    """Why a handshake ended. It does not count as a refusal if the peer left or had sent no byte, like a health check,
    or if the node stops.
    """

    reason: str
    is_refusal: bool


class Handshakes:
    """The handshakes of one node, over all its listeners."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, make_pool: Callable[[], Executor], timeout_s: float, workers_max: int
    ) -> None:
        """`workers_max` is the number of threads of the pool."""
        self.loop = loop
        self.timeout_s = min(timeout_s, TIMEOUT_S_MAX)
        self._make_pool = make_pool
        self._pool: Executor | None = None
        # Queues for the workers and for the loop. One side appends and the other one takes; both steps are atomic.
        self._waiting: deque[Handshake] = deque()
        self._done: deque[tuple[Handshake, int]] = deque()
        self._workers_max = workers_max
        # Only the loop changes it.
        self._workers = 0
        # Whether the loop was asked to take the results. A worker that sees an old value asks once more.
        self._is_reported = False
        # The handshakes whose peer has sent bytes, in the order of their start.
        self.begun: dict[Handshake, None] = {}
        # All of them.
        self.open: dict[Handshake, None] = {}

    @property
    def pool(self) -> Executor:
        if self._pool is None:
            self._pool = self._make_pool()
        return self._pool

    def note_begun(self, handshake: Handshake) -> None:
        if len(self.begun) >= BEGUN_MAX:
            for other in self.begun:
                if not other.is_with_worker:
                    other.fail("gave way to newer handshakes", is_refusal=True)
                    break
        self.begun[handshake] = None

    def go_on(self, handshake: Handshake) -> None:
        """Let a worker go on with it; the handshake is called with the outcome."""
        self._waiting.append(handshake)
        self._employ()

    def _employ(self) -> None:
        if self._waiting and self._workers < self._workers_max:
            self._workers += 1
            self.pool.submit(self._work)

    def _work(self) -> None:
        """In a worker."""
        while True:
            try:
                handshake = self._waiting.popleft()
            except IndexError:
                break
            self._done.append((handshake, handshake.shake()))
            if not self._is_reported:
                self._is_reported = True
                self.loop.call_soon_threadsafe(self._take)
        self.loop.call_soon_threadsafe(self._worker_ended)

    def _take(self) -> None:
        self._is_reported = False
        while self._done:
            handshake, outcome = self._done.popleft()
            handshake.went_on(outcome)

    def _worker_ended(self) -> None:
        self._workers -= 1
        # For one that came when the worker had just looked for the last time.
        self._employ()

    def close(self) -> None:
        """End all, and the workers."""
        for handshake in list(self.open):
            handshake.fail("the broker stops", is_refusal=False)
        if self._pool is not None:
            self._waiting.clear()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        # The handshakes that a worker owned, or that waited for one.
        for handshake in list(self.open):
            handshake.went_on(FAILED)


class Handshake:
    """One, from the connection to its transport."""

    def __init__(
        self,
        handshakes: Handshakes,
        context: TlsContext,
        socket: Transport,
        on_done: Callable[[TlsTransport], None],
        on_failed: Callable[[Failure], None],
    ) -> None:
        """One of `on_done` and `on_failed` is called, once. The socket is closed on failure."""
        self._handshakes = handshakes
        self._loop = handshakes.loop
        self._context = context
        self._socket = socket
        self._fd = socket.fd
        self._on_done = on_done
        self._on_failed = on_failed
        self._session: TlsSession | None = None
        self.is_with_worker = False
        self._failure: Failure | None = None
        self._is_over = False
        handshakes.open[self] = None
        self._timer = self._loop.call_later(handshakes.timeout_s, self._on_time)
        self._loop.add_reader(self._fd, self._on_readable)

    def _on_time(self) -> None:
        self.fail("it was not finished in time", is_refusal=self._session is not None)

    def fail(self, reason: str, *, is_refusal: bool) -> None:
        """End it now, or when the worker is done."""
        if self._is_over:
            return
        self._failure = Failure(reason, is_refusal)
        if not self.is_with_worker:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._end()

    def _on_readable(self) -> None:
        self._loop.remove_reader(self._fd)
        if self._session is None:
            self._session = TlsSession(self._context, self._fd)
            self._handshakes.note_begun(self)
        self._go_on()

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._fd)
        self._go_on()

    def _go_on(self) -> None:
        self.is_with_worker = True
        self._handshakes.go_on(self)

    def shake(self) -> int:
        """In a worker."""
        assert self._session is not None
        return self._session.shake()

    def went_on(self, outcome: int) -> None:
        """Take the result of a worker; FAILED also if no worker will continue it."""
        self.is_with_worker = False
        if self._is_over:
            return
        if self._failure is not None:
            self._end()
            return
        assert self._session is not None
        if outcome == SHAKEN:
            self._leave()
            self._on_done(TlsTransport(self._loop, self._session, self._fd))
        elif outcome == FAILED:
            self._failure = Failure(self._session.failure, not self._session.has_peer_left)
            self._end()
        elif outcome == WANTS_READ:
            self._loop.add_reader(self._fd, self._on_readable)
        else:
            self._loop.add_writer(self._fd, self._on_writable)

    def _leave(self) -> None:
        self._is_over = True
        self._timer.cancel()
        self._handshakes.open.pop(self, None)
        self._handshakes.begun.pop(self, None)

    def _end(self) -> None:
        self._leave()
        self._socket.close_now()
        self._on_failed(self._failure or Failure("it was ended", is_refusal=False))
