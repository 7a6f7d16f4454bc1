"""Connections to other brokers, as replication needs them."""

from __future__ import annotations

from typing import Protocol


class LinkFailed(Exception):
    """The connection could not be made, broke, or did not answer in time; the text says why."""


class Link(Protocol):
    """A connection to one broker. Its answers come in the order of the requests, and none comes after a failure."""

    async def exchange(self, api_key: int, version: int, body: bytes, timeout_s: float) -> memoryview:
        """Send a request; return the body of its answer. Raises LinkFailed, after which the link is closed."""

    def close(self) -> None: ...


class Links(Protocol):
    """How to reach brokers."""

    async def connect(self, broker_id: int) -> Link:
        """Connect to the inter-broker listener of a broker of the image. Raises LinkFailed."""
