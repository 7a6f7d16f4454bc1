"""The views of a server: one for each table that a pull query has read, as long as the table exists."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from broker_cy.admin import AdminClient
from broker_sql.catalog import SourceInfo
from broker_sql.server.views.view import View
from broker_sql.statements import WindowKind


class Views:
    def __init__(self, client: AdminClient, registry: Any) -> None:
        self._client = client
        self.registry = registry
        self._views: dict[str, tuple[SourceInfo, View]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Views:
        return self

    async def __aexit__(self, *exc: object) -> None:
        views = [view for _, view in self._views.values()]
        self._views.clear()
        await asyncio.gather(*(each.close() for each in views), *self._closing)

    async def of(self, source: SourceInfo) -> View:
        """Return the view of a table, with its rows. Raises ClientError and StatementError."""
        found = self._views.get(source.name)
        if found is None or found[0].topic != source.topic or found[0].window != source.window:
            if found is not None:
                self._close(found[1])
            found = source, View(self._client, source.topic, suffix_bytes_of(source))
            self._views[source.name] = found
        try:
            await found[1].ready()
        except BaseException:
            # The next query tries again, from the start.
            if self._views.get(source.name) is found:
                del self._views[source.name]
                self._close(found[1])
            raise
        return found[1]

    def keep(self, sources: Mapping[str, SourceInfo]) -> None:
        """Drop the views of tables that are gone."""
        for name in [each for each in self._views if each not in sources]:
            self._close(self._views.pop(name)[1])

    def _close(self, view: View) -> None:
        task = asyncio.ensure_future(view.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def suffix_bytes_of(source: SourceInfo) -> int:
    """Return the bytes of a window behind the key: Kafka's format of windowed keys."""
    if source.window is None:
        return 0
    return 16 if source.window.kind is WindowKind.SESSION else 8
