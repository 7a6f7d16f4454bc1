"""Pages of the metrics listener about the partitions of a node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker_cy.core.classes import NamedTuple


class Pages(NamedTuple):
    """The pages of a node with partitions, as JSON: the records of a share group in flight, and its mirrors."""

    share_group: Callable[[str], Awaitable[bytes]]
    mirrors: Callable[[], Awaitable[bytes]]
