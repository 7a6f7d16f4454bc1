"""Connections to other brokers, as replication needs them."""

from __future__ import annotations

from typing import Protocol


class LinkFailed(Exception):
    """The connection could not be made, broke, or did not answer in time; the text says why."""


class Asking(Protocol):
    """The sender of a request: the loop calls one of the two methods."""

    def answered(self, body: memoryview) -> None:
        """The body of the answer, which is not copied: its memory is reused when the last reference is gone."""

    def failed(self, error: LinkFailed) -> None: ...


class Link(Protocol):
    """A connection to one broker. Its answers come in the order of the requests, and none comes after a failure."""

    def ask(self, api_key: int, version: int, body: bytes, asking: Asking) -> None:
        """Send a request. Raises LinkFailed."""

    async def exchange(self, api_key: int, version: int, body: bytes, timeout_s: float) -> memoryview:
        """Send a request; return the body of its answer. Raises LinkFailed, after which the link is closed."""

    def close(self) -> None: ...


class Links(Protocol):
    """How to reach brokers."""

    async def connect(self, broker_id: int) -> Link:
        """Connect to the inter-broker listener of a broker of the image. Raises LinkFailed."""
