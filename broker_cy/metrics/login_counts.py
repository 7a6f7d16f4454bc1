"""The results of the logins of clients (SASL), and of their handshakes (TLS)."""

from __future__ import annotations

from collections import Counter


class LoginCounts:
    """By listener, and whether the client was logged in and did it again; `expired` are sessions that ended."""

    def __init__(self) -> None:
        self.successes: Counter[tuple[str, bool]] = Counter()
        self.failures: Counter[tuple[str, bool]] = Counter()
        self.expired: Counter[str] = Counter()


class TlsCounts:
    """By listener, and whether the handshake succeeded."""

    def __init__(self) -> None:
        self.handshakes: Counter[tuple[str, bool]] = Counter()
