"""One file per API; each registers its function, and `deferred` or the file itself its version range. The APIs in
`controllers` are served on listeners of the controller only.
"""

from __future__ import annotations

import importlib
import pkgutil

from broker_cy.broker.registry import ListenerKind, Registration, registrations
from broker_cy.handlers import deferred as deferred

# These declare themselves: nearly every client uses them, and connections take some of them from their modules.
AT_START = (
    "api_versions",
    "fetch",
    "find_coordinator",
    "init_producer_id",
    "list_offsets",
    "metadata",
    "produce",
    "sasl_authenticate",
    "sasl_handshake",
)


def serve_handlers(kind: ListenerKind = ListenerKind.BROKER) -> dict[int, Registration]:
    """Import the handler modules that a listener of that kind needs at once, and return the registry of the kind. The
    others are imported with their first request.

    The modules for controllers are not imported for others: a node that is alone would start later for nothing.
    """
    for name in AT_START:
        importlib.import_module(f"{__name__}.{name}")
    if kind is ListenerKind.CONTROLLER:
        _import_all_of_controllers()
    return registrations(kind)


def load_handlers(kind: ListenerKind = ListenerKind.BROKER) -> dict[int, Registration]:
    """Import all handler modules of listeners of that kind at once: for documents, and for programs without threads."""
    _import_all(__name__, __path__)
    if kind is ListenerKind.CONTROLLER:
        _import_all_of_controllers()
    return registrations(kind)


def _import_all_of_controllers() -> None:
    from broker_cy.handlers import controllers

    _import_all(controllers.__name__, controllers.__path__)


def _import_all(package: str, path: list[str]) -> None:
    for module in pkgutil.iter_modules(path):
        if not module.ispkg:
            importlib.import_module(f"{package}.{module.name}")
