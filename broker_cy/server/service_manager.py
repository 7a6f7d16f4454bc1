"""Notifies systemd (sd_notify(3)) that the broker is ready, that it stops, and that its loop still runs.

Active only if the service manager set NOTIFY_SOCKET, as it does for a unit with `Type=notify`. Each notification is one
datagram. The broker waits for none of them; a failure is logged once and does not affect the broker.

* READY=1 once the broker accepts clients, STOPPING=1 when it begins to stop, each with a STATUS= for
  `systemctl status`.
* WATCHDOG=1 twice in each WATCHDOG_USEC (`WatchdogSec=` of the unit), sent by the event loop itself: a broker whose
  loop is stuck sends nothing, and systemd restarts it.
* EXTEND_TIMEOUT_USEC= while logs are recovered and while the stop writes the last data, so that `TimeoutStartSec=` and
  `TimeoutStopSec=` need not cover the worst case.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

from broker_cy.core.clock import Clock
from broker_cy.core.logs import facts

LOGGER = logging.getLogger("broker_cy.server.service_manager")

# Each extension is longer than the recovery of one log takes (a start reads little of each), and is renewed long before
# it ends.
EXTENSION_S = 120
PROGRESS_INTERVAL_S = 2.0
# Pings in each watchdog interval, as sd_watchdog_enabled(3) recommends.
PINGS = 2


class ServiceManager:
    """Sends notifications; does nothing without NOTIFY_SOCKET. `environment` is the process's."""

    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._socket: socket.socket | None = None
        self._clock = clock
        self._address = ""
        self._failed = False
        self._watchdog_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._reported_s = -PROGRESS_INTERVAL_S
        address = environment.get("NOTIFY_SOCKET", "")
        if not address:
            return
        if address[0] not in "/@":
            LOGGER.warning(
                "NOTIFY_SOCKET is not a Unix socket: no notifications are sent", extra=facts(address=address)
            )
            return
        # The name of an abstract socket starts with a null byte, which an environment variable cannot contain.
        self._address = "\0" + address[1:] if address[0] == "@" else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._watchdog_s = _watchdog_s(environment)

    @property
    def is_active(self) -> bool:
        """Return whether there is a service manager to notify."""
        return self._socket is not None

    def notify(self, *assignments: str) -> None:
        """Send one notification of `NAME=value` lines."""
        if self._socket is None:
            return
        try:
            self._socket.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            if not self._failed:
                self._failed = True
                LOGGER.warning("could not notify the service manager", extra=facts(reason=error.strerror or str(error)))

    def loading(self, logs: int) -> None:
        """Report the number of logs loaded so far. Sends at most one notification each PROGRESS_INTERVAL_S."""
        if self._socket is None:
            return
        now_s = self._clock.monotonic()
        if now_s - self._reported_s >= PROGRESS_INTERVAL_S:
            self._reported_s = now_s
            self.notify(_extension(), f"STATUS=loading logs: {logs} so far")

    def ready(self, loop: asyncio.AbstractEventLoop, status: str) -> None:
        """Report that the broker accepts clients, and from now on that the loop runs."""
        self.notify("READY=1", f"STATUS={status}")
        if self._watchdog_s:
            self._ping(loop)

    def _ping(self, loop: asyncio.AbstractEventLoop) -> None:
        self.notify("WATCHDOG=1")
        self._timer = loop.call_later(self._watchdog_s / PINGS, self._ping, loop)

    def stopping(self) -> None:
        """Report that the broker has begun to stop."""
        self.notify("STOPPING=1", _extension(), "STATUS=stopping")

    def close(self) -> None:
        """Stop sending notifications."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _extension() -> str:
    return f"EXTEND_TIMEOUT_USEC={EXTENSION_S * 1_000_000}"


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """Return the watchdog interval of this process; 0 without one, or if WATCHDOG_PID names another process."""
    interval_us = environment.get("WATCHDOG_USEC", "")
    pid = environment.get("WATCHDOG_PID", "")
    if not interval_us.isdecimal() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(interval_us) / 1_000_000
