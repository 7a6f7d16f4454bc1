"""The page of a share group's records in flight, which consoles read from the metrics listener."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker_cy.share_service import in_flight_page as pages
from tests.broker_cy.coordinator_services.group_broker import run
from tests.broker_cy.share_service.share_broker import ACCEPT, NONE, REJECT, RELEASE, Range, ShareBroker

WAIT_MS = 20_000
SETTINGS = {"group.share.record.lock.duration.ms": "60000", "group.share.delivery.count.limit": "3"}


def test_the_page_has_holders_locks_and_causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, consoles show no or wrong holders of records, or leave records out without a word."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            topic = await broker.topic()
            await broker.produce(5)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 4, 1)]
            assert await a.acknowledge(topic, (1, 1, [RELEASE]), (2, 2, [ACCEPT]), (3, 3, [REJECT])) == NONE
            page = json.loads(await pages.in_flight_page(broker.share, "g"))
            (partition,) = page["partitions"]
            runs = partition.pop("in_flight")
            assert partition == {
                "topic": "t",
                "partition": 0,
                "status": "ACTIVE",
                "start_offset": 0,
                "end_offset": 4,
                "finished_records": 2,
                "is_blocked": False,
                "waiting_fetches": 0,
                "delivery_limit": 3,
                "throttled_from": 2,
                "left_out": 0,
            }
            assert [(each["first_offset"], each["state"], each["member_id"]) for each in runs] == [
                (0, "acquired", "a"),
                (1, "available", None),
                (2, "acknowledged", None),
                (3, "archived", None),
                (4, "acquired", "a"),
            ]
            assert 50_000 < runs[0]["lock_left_ms"] <= 60_000
            assert runs[1]["lock_left_ms"] is None
            assert page["archived"] == {"reject": 1, "limit": 0, "missing": 0, "aborted": 0, "operator": 0}
            causes = ("timeout", "session", "leader", "operator", "redrive")
            assert page["returned"] == {"release": 1} | dict.fromkeys(causes, 0)

            monkeypatch.setattr(pages, "RUNS_MAX", 2)
            (partition,) = json.loads(await pages.in_flight_page(broker.share, "g"))["partitions"]
            assert (len(partition["in_flight"]), partition["left_out"]) == (2, 3)
            other = json.loads(await pages.in_flight_page(broker.share, "other"))
            assert other["partitions"] == []
            assert not any(other["archived"].values())

    run(work)


def test_the_pages_of_shards_are_one() -> None:
    """If this fails, a broker with shards shows the records of one shard only."""
    first = {"partitions": [{"partition": 0}], "archived": {"limit": 1, "reject": 2}, "returned": {"release": 0}}
    second = {"partitions": [{"partition": 1}], "archived": {"limit": 3, "reject": 0}, "returned": {"release": 4}}
    assert json.loads(pages.merged([json.dumps(each).encode() for each in (first, second)])) == {
        "partitions": [{"partition": 0}, {"partition": 1}],
        "archived": {"limit": 4, "reject": 2},
        "returned": {"release": 4},
    }
    assert json.loads(pages.merged([])) == {"partitions": [], "archived": {}, "returned": {}}
