"""The palette finds topics and groups by a part of their name."""

from __future__ import annotations

import pytest

from broker_cy.admin.group_values import GroupListing
from broker_cy.client.errors import ClientError
from dashboard.collector.names import NAMES_MAX, rank_of
from tests.dashboard.pages.cluster_kit import plant, topic_of
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import VIEWER, Desk
from tests.support.broker import Target


def two_feeds(desk: Desk) -> None:
    names = ("Orders", "orders-eu", "payments.orders", "reorders", "secret-orders", *(f"log-{at}" for at in range(50)))
    plant(desk, "topics", tuple(topic_of(name) for name in names))
    groups = tuple(GroupListing(name, "consumer", "Stable", "classic") for name in ("orders-billing", "other"))
    plant(desk, "groups", groups)


def test_names_by_how_well_they_match(broker: Target) -> None:
    """If this fails, the palette does not find a topic or group by the part of its name that the user remembers."""

    async def job(desk: Desk) -> None:
        two_feeds(desk)
        state = await desk.state("names", lambda state: len(state["found"]) == 6, filter=" oRDers ")
        assert [(each["kind"], each["name"]) for each in state["found"]] == [
            ("topic", "Orders"),
            ("topic", "orders-eu"),
            ("group", "orders-billing"),
            ("topic", "secret-orders"),
            ("topic", "payments.orders"),
            ("topic", "reorders"),
        ]
        many = await desk.state("names", filter="log")
        assert (len(many["found"]), many["more"]) == (NAMES_MAX, 50 - NAMES_MAX)
        assert (await desk.state("names", filter="   ")) == {"found": [], "more": 0}
        assert (await desk.state("names"))["found"] == []
        with pytest.raises(ClientError, match="200 characters"):
            desk.look("names", filter="x" * 201)

    drive(broker.bootstrap, job)


def test_hidden_names_are_not_found(broker: Target) -> None:
    """If this fails, a viewer can find the names of hidden topics and groups by typing."""

    async def job(desk: Desk) -> None:
        two_feeds(desk)
        state = await desk.state("names", lambda state: state["found"], filter="o")
        assert [each["name"] for each in state["found"]] == ["orders-eu", "orders-billing"]
        assert state["more"] == 0

    drive(broker.bootstrap, job, seeing(VIEWER, topics=("orders*",), groups=("orders*",)))


def test_every_page_has_the_palette(broker: Target) -> None:
    """If this fails, the button of the palette asks a channel that does not exist."""

    async def job(desk: Desk) -> None:
        assert "'names'" in layout_of(desk, "overview")

    drive(broker.bootstrap, job)


@pytest.mark.parametrize(
    ("name", "text", "rank"),
    [("a", "a", 0), ("ab", "a", 1), ("b-a", "a", 2), ("ba.a", "a", 2), ("bab", "a", 3), ("b", "a", None)],
)
def test_ranks(name: str, text: str, rank: int | None) -> None:
    """If this fails, the best match is not the first."""
    assert rank_of(name, text) == rank
