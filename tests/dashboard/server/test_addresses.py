"""Addresses without a cluster, addresses of earlier releases, and unknown ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dashboard.collector.move_runs import MoveRuns
from dashboard.pages.registry import PAGES
from tests.dashboard.server.application import visitor


class Idle:
    """A cluster that is not sampled."""

    def __init__(self) -> None:
        self.moves = MoveRuns()

    def start(self) -> None:
        pass

    async def close(self) -> None:
        pass


def answers(state: Path, *addresses: str) -> list[tuple[int, str]]:
    """Return the status of each address, and its redirect, of a dashboard of two clusters; the default is `main`."""

    async def job() -> list[tuple[int, str]]:
        async with visitor(state, hubs={"main": Idle(), "other one": Idle()}) as client:
            found = [await client.get(address) for address in addresses]
            return [(each.status_code, each.headers.get("location", "")) for each in found]

    return asyncio.run(job())


def test_addresses_without_a_cluster_lead_to_the_default_cluster(tmp_path: Path) -> None:
    """If this fails, /topics, which users type and other consoles have, leads nowhere."""
    names = [page.name for page in PAGES]
    assert {"topics", "groups", "brokers", "acls"} < {*names}
    assert answers(tmp_path, "/", *(f"/{name}" for name in names)) == [
        (302, "/c/main/overview"),
        *((302, f"/c/main/{name}") for name in names),
    ]


def test_redirects_keep_the_query(tmp_path: Path) -> None:
    """If this fails, a link to a topic without the name of the cluster opens an empty page."""
    assert answers(tmp_path, "/topic?topic=a%20b%26c&range=1h", "/c/other%20one/rights?principal=User%3Abob") == [
        (302, "/c/main/topic?topic=a%20b%26c&range=1h"),
        (302, "/c/other%20one/acls?principal=User%3Abob"),
    ]


@pytest.mark.parametrize(
    ("old", "new"), [("moves", "reassignments"), ("rights", "acls"), ("tokens", "delegation-tokens")]
)
def test_addresses_of_earlier_releases(tmp_path: Path, old: str, new: str) -> None:
    """If this fails, bookmarks of earlier releases lead nowhere."""
    assert answers(tmp_path, f"/c/main/{old}", f"/{old}") == [(302, f"/c/main/{new}")] * 2


def test_unknown_addresses(tmp_path: Path) -> None:
    """If this fails, a checker of links or a proxy takes a wrong address for a page."""
    unknown = ("/nothing", "/c/main/nothing", "/c/main", "/c/main/topics/x", "/topics/x")
    assert answers(tmp_path, *unknown) == [(404, "")] * len(unknown)
    known = ("/c/main/topics", "/c/main/acls?principal=x", "/healthz", "/_dash-layout", "/assets/style.css")
    assert answers(tmp_path, *known) == [(200, "")] * len(known)
