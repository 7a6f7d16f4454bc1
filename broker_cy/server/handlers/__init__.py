"""One file per API; each registers its own version range."""

from __future__ import annotations

import importlib
import pkgutil

from broker_cy.server.registry import Registration, registrations


def load_handlers() -> dict[int, Registration]:
    """Import every handler module, which registers it, and return the registry."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return registrations()
