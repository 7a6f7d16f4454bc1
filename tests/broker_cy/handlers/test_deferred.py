"""Handlers that are imported with their first request."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.broker import registry
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, registrations
from broker_cy.handlers import AT_START, load_handlers
from broker_cy.launch.processes import run
from broker_cy.wire.frame import ApiKey

ROOT = Path(__file__).resolve().parents[3]
MODULE = """
import threading
from broker_cy.broker.registry import handler
from broker_cy.wire.frame import ApiKey

imported_by = threading.get_ident()

@handler(ApiKey.HEARTBEAT)
{function}
"""
SYNC = "def heartbeat(ctx, request):\n    return request * 2"
ASYNC = "async def heartbeat(ctx, request):\n    return request * 2"


@pytest.mark.parametrize("function", [SYNC, ASYNC])
def test_the_first_requests_wait_for_an_import_in_a_worker(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the first request of an API is not answered, or its import blocks every other client."""
    package = f"late_{tmp_path.name}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    (tmp_path / package / "heartbeat.py").write_text(MODULE.format(function=function))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_REGISTRY", {kind: {} for kind in ListenerKind})
    registry.deferred(package, ApiKey.HEARTBEAT, versions=(0, 4), on=registry.BOTH, requires="READ")
    entries = [registrations(kind)[ApiKey.HEARTBEAT] for kind in ListenerKind]
    context = cast(RequestContext, None)

    async def both() -> list[Any]:
        return await asyncio.gather(*(entry.function(context, number) for number, entry in enumerate(entries)))

    assert asyncio.run(both()) == [0, 2]
    assert sys.modules[f"{package}.heartbeat"].imported_by != threading.get_ident()
    # From now on, connections call the handler itself.
    assert {entry.function for entry in entries} == {sys.modules[f"{package}.heartbeat"].heartbeat}
    assert {entry.is_async for entry in entries} == {function == ASYNC}


def test_every_deferred_api_has_a_handler() -> None:
    """If this fails, an API that ApiVersions lists closes the connection of the client that uses it."""
    for kind in ListenerKind:
        load_handlers(kind)
        modules = {key: entry.function.__module__ for key, entry in registrations(kind).items()}
        assert [key for key, module in modules.items() if module == registry.__name__] == []


def test_a_start_imports_only_handlers_that_nearly_every_client_uses() -> None:
    """If this fails, the time to the first response and the memory at rest grow by handlers that may never be used."""
    code = (
        "import sys; from broker_cy import handlers; served = handlers.serve_handlers(); print(len(served)); "
        "print(*sorted(name[19:] for name in sys.modules if name.startswith('broker_cy.handlers.')))"
    )
    count, names = run([sys.executable, "-c", code], cwd=ROOT).stdout.decode().splitlines()
    assert int(count) == len(load_handlers())
    own = {name for name in names.split() if not name.startswith("shared")}
    # Metadata creates topics.
    assert own == {*AT_START, "create_topics", "deferred"}
