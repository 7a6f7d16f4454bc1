"""The registry of handlers: which function serves which API, in which versions.

A handler file registers itself on import. ApiVersions and docs/protocol.md are derived from the registry, so that only
served APIs can be advertised. An ordinary handler takes `(ctx, request)` and returns the response; an `async def`
handler answers later, and the connection keeps the order of answers. The field for an error differs from API to API, so
handlers build their error responses themselves. An exception from a handler is a bug: it closes the connection and is
logged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from broker_cy.server.broker import Broker

HandlerFunction = Callable[["RequestContext", Any], Any]


@dataclass(frozen=True, slots=True)
class Registration:
    """One served API: versions `min_version..max_version`; ApiVersions advertises `advertised_min` as the first."""

    api_key: ApiKey
    min_version: int
    max_version: int
    advertised_min: int
    function: HandlerFunction
    is_async: bool
    omissions: str


class RequestContext:
    """The context of a request: what a handler knows besides its body."""

    __slots__ = ("api_key", "broker", "client_host", "client_id", "connection_id", "listener", "version")

    def __init__(
        self,
        broker: Broker,
        api_key: int,
        version: int,
        client_id: str | None,
        client_host: str,
        listener: str,
        connection_id: str = "",
    ) -> None:
        self.broker = broker
        self.api_key = api_key
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.listener = listener
        self.connection_id = connection_id


_REGISTRY: dict[int, Registration] = {}


def handler(
    api_key: ApiKey, *, versions: tuple[int, int], advertise_from: int | None = None, omissions: str = ""
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function for `api_key` over the inclusive range `versions`.

    ApiVersions advertises `advertise_from` in place of the lower bound (Produce, KAFKA-18659). `omissions` is one
    sentence about the parts of the API that are not served, for docs/protocol.md.
    """

    def register(function: HandlerFunction) -> HandlerFunction:
        if api_key in _REGISTRY:
            raise ValueError(f"{api_key.name} is registered twice")
        low, high = versions
        _REGISTRY[api_key] = Registration(
            api_key,
            low,
            high,
            low if advertise_from is None else advertise_from,
            function,
            inspect.iscoroutinefunction(function),
            omissions,
        )
        return function

    return register


def registrations() -> dict[int, Registration]:
    """Return all supported APIs, by key. Call `load_handlers` first."""
    return _REGISTRY


def load_handlers() -> dict[int, Registration]:
    """Import every handler module, which registers it, and return the registry."""
    import importlib
    import pkgutil

    from broker_cy.server import handlers

    for module in pkgutil.iter_modules(handlers.__path__):
        importlib.import_module(f"{handlers.__name__}.{module.name}")
    return _REGISTRY
