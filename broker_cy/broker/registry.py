"""The registry of handlers: the function for each API, its versions, and its kind of listener.

A handler file registers itself on import. ApiVersions and docs/protocol.md are derived from the registry, so that only
served APIs can be advertised. An ordinary handler takes `(ctx, request)` and returns the response, or a coroutine of it
if it has to wait; an `async def` handler answers later, and the connection keeps the order of answers. The field for an
error differs from API to API, so handlers build their error responses themselves. An exception from a handler is a bug:
it closes the connection and is logged.

Each handler declares the operations that clients need, and checks them itself by its context. A handler without this
declaration is not served if an authorizer is configured.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.core.classes import NamedTuple
from broker_cy.wire.frame import ApiKey

HandlerFunction = Callable[[RequestContext, Any], Any]


class ListenerKind(Enum):
    """The listeners on which an API is served: those for clients and brokers, or those of controllers."""

    BROKER = "broker"
    CONTROLLER = "controller"


BOTH = (ListenerKind.BROKER, ListenerKind.CONTROLLER)


class Registration(NamedTuple):
    """One served API: versions `min_version..max_version`; ApiVersions advertises `advertised_min` as the first, or
    nothing.
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


_REGISTRY: dict[ListenerKind, dict[int, Registration]] = {kind: {} for kind in ListenerKind}


def handler(
    api_key: ApiKey,
    *,
    versions: tuple[int, int],
    advertise_from: int | None = None,
    is_advertised: bool = True,
    omissions: str = "",
    requires: str | None = None,
    on: tuple[ListenerKind, ...] = (ListenerKind.BROKER,),
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function for `api_key` over the inclusive range `versions`, on listeners of the kinds
    `on`.

    ApiVersions advertises `advertise_from` in place of the lower bound (Produce, KAFKA-18659), and nothing without
    `is_advertised`. `omissions` is one
    sentence about the parts of the API that are not served, for docs/protocol.md; `requires` are the rights that the
    handler checks.
    """

    def register(function: HandlerFunction) -> HandlerFunction:
        low, high = versions
        registration = Registration(
            api_key,
            low,
            high,
            low if advertise_from is None else advertise_from,
            function,
            inspect.iscoroutinefunction(function),
            omissions,
            requires,
            is_advertised,
        )
        for kind in on:
            if api_key in _REGISTRY[kind]:
                raise ValueError(f"{api_key.name} is registered twice")
            _REGISTRY[kind][api_key] = registration
        return function

    return register


def registrations(kind: ListenerKind = ListenerKind.BROKER) -> dict[int, Registration]:
    """Return all APIs that are served on listeners of that kind, by key. Call `handlers.load_handlers` first."""
    return _REGISTRY[kind]


def declared(served: dict[int, Registration]) -> dict[int, Registration]:
    """Return those APIs whose rights are decided: the others are refused where an authorizer is configured."""
    return {key: entry for key, entry in served.items() if entry.requires is not None}
