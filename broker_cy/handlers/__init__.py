"""One file per API; each registers its own version range. The APIs in `controllers` are served on listeners of the
controller only.
"""

from __future__ import annotations

import importlib
import pkgutil

from broker_cy.broker.registry import ListenerKind, Registration, registrations


def load_handlers(kind: ListenerKind = ListenerKind.BROKER) -> dict[int, Registration]:
    """Import the handler modules of listeners of that kind, which registers them, and return the registry of the kind.

    The modules for controllers are not imported for others: a node that is alone would start later for nothing.
    """
    _import_all(__name__, __path__)
    if kind is ListenerKind.CONTROLLER:
        from broker_cy.handlers import controllers

        _import_all(controllers.__name__, controllers.__path__)
    return registrations(kind)


def _import_all(package: str, path: list[str]) -> None:
    for module in pkgutil.iter_modules(path):
        if not module.ispkg:
            importlib.import_module(f"{package}.{module.name}")
