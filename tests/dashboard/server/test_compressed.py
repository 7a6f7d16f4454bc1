"""The files of pages are compressed before the first visitor asks, and all are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker_cy.http.compressed import Compressed
from broker_cy.reporting.document import PLOTLY
from dashboard.app import ASSETS
from tests.dashboard.server.application import visitor


def test_the_program_compresses_what_its_pages_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If this fails, a file that pages load is missing from those that are compressed at the start."""
    prepared: list[str] = []
    done = asyncio.Event()

    async def prepare(self: Compressed, addresses: Iterable[str]) -> None:
        prepared.extend(addresses)
        done.set()

    monkeypatch.setattr(Compressed, "prepare", prepare)

    async def run() -> None:
        async with visitor(tmp_path), asyncio.timeout(30):
            await done.wait()

    asyncio.run(run())
    paths = {address.partition("?")[0] for address in prepared}
    assets = {f"/assets/{path.relative_to(ASSETS)}" for path in ASSETS.rglob("*") if path.suffix in (".js", ".css")}
    assert assets | {f"/assets/vendor/{PLOTLY.name}"} <= paths
    assert any("/dash_renderer" in path for path in paths)
    assert all("?" in each for each in prepared if each.startswith("/assets/") and "/vendor/" not in each)


def test_the_library_that_draws_charts_is_served(tmp_path: Path) -> None:
    """If this fails, every chart of the dashboard is empty."""

    async def run() -> None:
        async with visitor(tmp_path) as client:
            found = await client.get(f"/assets/vendor/{PLOTLY.name}")
            assert found.status_code == 200
            assert found.headers["content-type"].startswith("text/javascript")
            assert found.text == PLOTLY.read_text(encoding="utf-8")

    asyncio.run(run())
