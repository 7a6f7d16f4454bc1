"""The registry of an application, one for each process and set of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_cy.client.errors import ClientError
from broker_streams import settings
from broker_streams.serdes.schemas.lookups import MemoryRegistry, SchemaRegistry
from broker_streams.serdes.schemas.options import URL, Options
from broker_streams.settings import Found

OPEN_MAX: Final = 16
"""Registries with different settings in one process; the oldest one is forgotten."""
_MOCK: Final = "mock://"

_open: dict[tuple[tuple[str, str], ...], SchemaRegistry] = {}
_mocks: dict[str, MemoryRegistry] = {}


def open_registry(config: Mapping[str, Any] | Found) -> SchemaRegistry | None:
    """Return the registry that `schema.registry.url` names; None without it. `mock://SCOPE` is one in memory, which all
    applications of the process share. Raises ValueError: a setting is wrong.
    """
    found = (config if isinstance(config, Found) else settings.read(config)).of_registry
    url = found.texts.get(URL)
    if url is None:
        return None
    options = Options.of(found.values)
    if url.startswith(_MOCK):
        if url not in _mocks and len(_mocks) >= OPEN_MAX:
            del _mocks[next(iter(_mocks))]
        return _mocks.setdefault(url, MemoryRegistry(options)).with_options(options)
    from broker_streams.registry.remote import RemoteRegistry

    place = tuple(sorted(found.texts.items()))
    if place not in _open:
        if len(_open) >= OPEN_MAX:
            del _open[next(iter(_open))]
        try:
            _open[place] = RemoteRegistry(found.texts, options)
        except ClientError as error:
            raise ValueError(str(error)) from None
    return _open[place]


def drop_mock_registry(scope: str) -> None:
    """Forget the schemas of `mock://SCOPE`."""
    _mocks.pop(_MOCK + scope, None)
