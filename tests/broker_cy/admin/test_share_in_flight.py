"""The records of a share group in flight, joined from the pages of its brokers."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from broker_cy.admin import share_in_flight
from broker_cy.admin.caller import Caller


def test_records_at_their_last_attempt_and_throttled_ones_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, consoles do not show which records are about to be archived, or are delivered in small parts."""

    def run(first: int, state: str, deliveries: int, member: str | None) -> dict[str, object]:
        lock_left_ms = None if member is None else 500
        return {
            "first_offset": first,
            "last_offset": first + 1,
            "state": state,
            "deliveries": deliveries,
            "member_id": member,
            "lock_left_ms": lock_left_ms,
            "is_pending": False,
        }

    runs = [
        run(0, "acquired", 5, "a"),
        run(2, "available", 2, None),
        run(4, "available", 3, None),
        run(6, "acquired", 4, "a"),
        run(8, "archived", 5, None),
    ]
    partition = {"topic": "t", "partition": 0, "is_blocked": False, "left_out": 0, "in_flight": runs}
    page = {
        "partitions": [{**partition, "delivery_limit": 5, "throttled_from": 3}],
        "archived": {"reject": 1},
        "returned": {},
    }

    async def pages(*_: object) -> dict[int, bytes]:
        return {1: json.dumps(page).encode(), 2: b"something else"}

    monkeypatch.setattr(share_in_flight, "pages_of", pages)
    flight = asyncio.run(share_in_flight.in_flight_of(cast("Caller", None), "g"))
    assert flight.brokers == (1,)
    assert [each.first_offset for each in flight.runs if each.is_last_attempt] == [0]
    assert [each.first_offset for each in flight.runs if each.is_throttled] == [4]
    assert (flight.last_attempts, flight.throttled, flight.out_of_order) == (2, 2, 2)
    assert flight.by_deliveries == {2: 2, 3: 2, 4: 2, 5: 2}
