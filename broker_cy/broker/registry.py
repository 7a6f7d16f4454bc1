"""The registry of handlers: the function for each API, its versions, and its kind of listener.

A handler file registers its function on import. Handlers that few clients use are imported with their first request:
`deferred` declares their APIs. ApiVersions and docs/protocol.md are derived from the registry, so that only
served APIs can be advertised. An ordinary handler takes `(ctx, request)` and returns the response, or a coroutine of it
if it has to wait; an `async def` handler answers later, and the connection keeps the order of answers. The field for an
error differs from API to API, so handlers build their error responses themselves. An exception from a handler is a bug:
it closes the connection and is logged.

Each handler declares the operations that clients need, and checks them itself by its context. A handler without this
declaration is not served if an authorizer is configured.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.core.classes import dataclass
from broker_cy.wire.frame import ApiKey

HandlerFunction = Callable[[RequestContext, Any], Any]


class ListenerKind(Enum):
    """The listeners on which an API is served: those for clients and brokers, or those of controllers."""

    BROKER = "broker"
    CONTROLLER = "controller"


BOTH = (ListenerKind.BROKER, ListenerKind.CONTROLLER)


@dataclass(slots=True, eq=False)
class Registration:
    """One served API: versions `min_version..max_version`; ApiVersions advertises `advertised_min` as the first, or
    nothing. `function` and `is_async` are those of the handler once its module is imported.
    """

    api_key: ApiKey
    min_version: int
    max_version: int
    advertised_min: int
    function: HandlerFunction
    is_async: bool
    omissions: str
    # The operations and resources that the handler checks; "": any client may use the API; None: undecided.
    requires: str | None = None
    is_advertised: bool = True


class _FirstUse:
    """The function of a handler whose module is not imported yet.

    The import runs in a worker thread, since it would block the loop for up to 10 ms. Requests that arrive meanwhile
    wait for the same import.
    """

    __slots__ = ("_api_key", "_kind", "module")

    def __init__(self, api_key: ApiKey, kind: ListenerKind, module: str) -> None:
        self._api_key, self._kind, self.module = api_key, kind, module

    async def __call__(self, ctx: RequestContext, request: Any) -> Any:
        await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, self.module)
        response = _REGISTRY[self._kind][self._api_key].function(ctx, request)
        return await response if inspect.isawaitable(response) else response


_REGISTRY: dict[ListenerKind, dict[int, Registration]] = {kind: {} for kind in ListenerKind}


def handler(
    api_key: ApiKey,
    *,
    versions: tuple[int, int] | None = None,
    advertise_from: int | None = None,
    is_advertised: bool = True,
    omissions: str = "",
    requires: str | None = None,
    on: tuple[ListenerKind, ...] = (ListenerKind.BROKER,),
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function for `api_key` over the inclusive range `versions`, on listeners of the kinds
    `on`. An API that is `deferred` has its versions and the rest there.

    ApiVersions advertises `advertise_from` in place of the lower bound (Produce, KAFKA-18659), and nothing without
    `is_advertised`. `omissions` is one
    sentence about the parts of the API that are not served, for docs/protocol.md; `requires` are the rights that the
    handler checks.
    """

    def register(function: HandlerFunction) -> HandlerFunction:
        is_async = inspect.iscoroutinefunction(function)
        if versions is None:
            for served in _REGISTRY.values():
                if (entry := served.get(api_key)) is not None:
                    entry.function, entry.is_async = function, is_async
            return function
        low, high = versions
        first = low if advertise_from is None else advertise_from
        for kind in on:
            entry = Registration(api_key, low, high, first, function, is_async, omissions, requires, is_advertised)
            _add(kind, entry)
        return function

    return register


def deferred(
    package: str,
    api_key: ApiKey,
    *,
    versions: tuple[int, int],
    is_advertised: bool = True,
    omissions: str = "",
    requires: str | None = None,
    on: tuple[ListenerKind, ...] = (ListenerKind.BROKER,),
) -> None:
    """Register `api_key` as `handler` does. The module of its handler has the name of the API, in that package, and is
    imported with the first request.
    """
    low, high = versions
    for kind in on:
        first_use = _FirstUse(api_key, kind, f"{package}.{api_key.name.lower()}")
        _add(kind, Registration(api_key, low, high, low, first_use, True, omissions, requires, is_advertised))


def _add(kind: ListenerKind, entry: Registration) -> None:
    if entry.api_key in _REGISTRY[kind]:
        raise ValueError(f"{entry.api_key.name} is registered twice")
    _REGISTRY[kind][entry.api_key] = entry


def registrations(kind: ListenerKind = ListenerKind.BROKER) -> dict[int, Registration]:
    """Return all APIs that are served on listeners of that kind, by key. Call a function of `handlers` first."""
    return _REGISTRY[kind]


def declared(served: dict[int, Registration]) -> dict[int, Registration]:
    """Return those APIs whose rights are decided: the others are refused where an authorizer is configured."""
    return {key: entry for key, entry in served.items() if entry.requires is not None}
