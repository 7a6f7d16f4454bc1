"""`broker-cy groups in-flight`, with a share consumer of librdkafka that holds records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_cy.commands.conftest import Cli
from tests.support.broker import Target
from tests.support.fake_cluster import FakePool
from tests.support.fake_groups import FakeGroups
from tests.support.share_holder import GROUP, TOPIC, holding
from tests.support.topics import create_topic


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Target]:
    """A broker with a share group that holds two records of four: one was accepted, and one rejected."""
    with holding(tmp_path) as target:
        yield target


def test_holders_and_causes_are_shown(bare: Cli, held: Target) -> None:
    """If this fails, an operator does not see which consumer holds the records that a share group does not finish."""
    command = ("groups", "in-flight", GROUP, "--bootstrap", held.bootstrap)
    page = bare(*command, "--json").json
    assert page["brokers"]
    assert page["archived"] == {"reject": 1, "limit": 0, "missing": 0, "aborted": 0, "operator": 0}
    (delivered,) = (each for each in page["runs"] if each["state"] == "acquired")
    assert (delivered["deliveries"], delivered["partition"]) == (1, {"topic": TOPIC, "partition": 0})
    assert 0 < delivered["lock_left_ms"] <= 30_000
    assert page["by_deliveries"] == {"1": delivered["last_offset"] - delivered["first_offset"] + 1}
    assert (page["last_attempts"], page["left_out"], page["blocked"]) == (0, 0, [])
    shown = bare(*command).out.splitlines()
    assert shown[0].startswith("in flight: ")
    assert "archived: 1 rejected" in shown
    assert shown[-1].split()[:2] == [f"{TOPIC}-0", str(delivered["first_offset"])]
    assert "till" in shown[-1]


def test_groups_and_brokers_without_records_in_flight(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group of another type, or a broker that reports nothing, looks like one without records."""
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(FakeGroups()))
    command = ("groups", "in-flight", "--bootstrap", "a:1")
    assert "only share groups have records in flight" in bare(*command, "billing", code=2).err
    assert "no broker answers at its brokercy.metrics.listener" in bare(*command, GROUP, code=1).err
    assert "GROUP_ID_NOT_FOUND" in bare(*command, "no-such-group", code=1).err


def test_an_operator_changes_records_in_flight(bare: Cli, held: Target) -> None:
    """If this fails, an operator sees records that hang or that no consumer can process, and can do nothing."""
    cluster = ("--bootstrap", held.bootstrap)

    def runs() -> list[tuple[str, int, int, int]]:
        page = bare("groups", "in-flight", GROUP, *cluster, "--json").json
        return [(each["state"], each["first_offset"], each["last_offset"], each["deliveries"]) for each in page["runs"]]

    (_, first, last, _) = next(each for each in runs() if each[0] == "acquired")
    rejected = first - 1
    one = f"{TOPIC}:0:{first}"
    previewed = bare("groups", "release", GROUP, *cluster, "--dry-run")
    assert f"{last - first + 1} records: available again" in previewed.err
    assert ("acquired", first, last, 1) in runs()
    assert (
        "no record of offset 900 is locked"
        in bare("groups", "release", GROUP, "--records", f"{TOPIC}:0:900", *cluster, "--yes", code=2).err
    )
    # The rejected record is behind the start offset, as all before it were finished.
    gone = bare("groups", "redrive", GROUP, "--records", f"{TOPIC}:0:{rejected}", *cluster, "--yes", code=2)
    assert "can be copied to a topic" in gone.err
    done = bare("groups", "reject", GROUP, "--records", f"{TOPIC}:0:{last}", *cluster, "--yes", "--json").json
    assert done == {"result": f"rejected 1 record of group {GROUP}", "done": [f"{TOPIC}-0"], "dry_run": False}
    assert ("archived", last, last, 1) in runs()
    assert bare("groups", "redrive", GROUP, "--records", f"{TOPIC}:0:{last}", *cluster, "--yes").out == (
        f"redrove 1 record of group {GROUP}\n"
    )
    assert ("available", last, last, 2) in runs()
    assert bare("groups", "release", GROUP, "--records", one, "--member", "till", *cluster, "--yes").out == (
        f"released 1 record of group {GROUP}\n"
    )
    create_topic(held.bootstrap, "again", 1)
    copied = ("groups", "redrive", GROUP, "--records", f"{TOPIC}:0:{rejected}-{first}", "--copy-to", "again", *cluster)
    assert "produces 2 records to again" in bare(*copied, "--dry-run").err
    assert bare(*copied, "--yes").out.startswith("produced 2 records to again")
    lines = bare("consume", "again", "--from", "beginning", "-e", "--json", *cluster).out.splitlines()
    assert len(lines) == 2
    assert "__dlq.errors.offset" in lines[0]
    events = bare("events", "--type", "share_records_changed", *cluster).out
    assert events.count("reject of 1 record") == 1
    assert events.count("redrive of 1 record") == 1


def test_requests_for_records_in_flight_are_checked(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a mistyped offset is not named, or a group of another type looks as if nothing were in flight."""
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(FakeGroups()))
    cluster = ("--bootstrap", "a:1", "--yes")
    for wrong in ("orders", "orders:x", "orders:0:", "orders:0:5-3", "orders:0:1,,2", "orders:0:-1"):
        assert repr(wrong) in bare("groups", "reject", GROUP, "--records", wrong, *cluster, code=2).err
    billing = bare("groups", "release", "billing", *cluster, code=2)
    assert "it is a consumer group; only share groups have records in flight" in billing.err
    assert "GROUP_ID_NOT_FOUND" in bare("groups", "release", "no-such-group", *cluster, code=1).err
