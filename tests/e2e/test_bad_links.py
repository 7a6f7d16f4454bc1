"""Mirrors that cannot copy: each is named, and nothing is overwritten (docs/mirror.md, Link flows)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from broker_cy.wire.api_keys import ApiKey
from tests.support.link_sides import LINK, PAUSED, SOURCE_TOPIC, WAIT_S, Side, fill, mirrored
from tests.support.old_broker import OldBroker
from tests.support.wait import until

pytestmark = pytest.mark.full
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Two brokers with links to each other; `west` also has one to itself."""
    east = Side(tmp_path_factory.mktemp("east"), settings=SECURED)
    west = Side(tmp_path_factory.mktemp("west"), settings=SECURED)
    east.link("west", west.broker.bootstrap)
    west.link("east", east.broker.bootstrap)
    west.link("west", west.broker.bootstrap)
    try:
        yield east, west
    finally:
        east.broker.close()
        west.broker.close()


@pytest.fixture
def sides(pair: tuple[Side, Side]) -> tuple[Side, Side]:
    """Both with the name of a topic that does not exist yet."""
    pair[0].topic = pair[1].topic = f"t-{uuid.uuid4().hex[:8]}"
    return pair


def test_links_without_a_file_and_with_a_wrong_one(sides: tuple[Side, Side]) -> None:
    """If this fails, a mirror stays empty without a reason, or a link with a corrected file needs a restart."""
    east, west = sides
    east.create()
    fill(east, 100)
    west.create(**{LINK: "missing"})
    west.becomes("waiting", "link_file", "missing.properties")
    west.alter(PAUSED, "true")
    west.becomes("paused")
    west.link("wrong", east.broker.bootstrap, **{"fetch.max.byte": "1"})
    west.alter(LINK, "wrong")
    west.alter(PAUSED, "false")
    west.becomes("waiting", "link_file", "fetch.max.byte is no setting of a link")
    west.link("wrong", "not an address")
    west.becomes("waiting", "link_file", "bootstrap.servers")
    west.link("wrong", east.broker.bootstrap, **{"brokercy.mirror.bytes.per.second": "-5"})
    west.becomes("waiting", "link_file", "brokercy.mirror.bytes.per.second")
    west.link("wrong", east.broker.bootstrap)
    mirrored(east, west)


def test_a_topic_that_is_missing_or_may_not_be_read(sides: tuple[Side, Side]) -> None:
    """If this fails, a missing right of the link looks like a source without records."""
    east, west = sides
    west.create(**{LINK: "east"})
    west.becomes("waiting", "no_topic")
    east.create()
    fill(east, 100)
    mirrored(east, west)
    before = west.read()
    denied = AclBinding(
        ResourceType.TOPIC,
        east.topic,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    for future in east.admin.create_acls([denied]).values():
        future.result(WAIT_S)
    west.becomes("waiting", "unauthorized")
    assert west.read() == before


def test_a_topic_that_mirrors_itself(sides: tuple[Side, Side]) -> None:
    """If this fails, a link to the own cluster takes a topic from its producers, and nothing says why."""
    _, west = sides
    west.create()
    fill(west, 100)
    before = west.read()
    west.alter(LINK, "west")
    west.becomes("failed", "itself", "this topic itself")
    assert west.read() == before
    west.alter(LINK, None)
    fill(west, 100)
    assert len(west.read()) > len(before)


def test_two_topics_that_mirror_each_other(sides: tuple[Side, Side]) -> None:
    """If this fails, one of two topics with different records is truncated because both were made mirrors."""
    east, west = sides
    for side, count in ((east, 100), (west, 200)):
        side.create()
        fill(side, count)
    before = east.read(), west.read()
    east.alter(PAUSED, "true")
    east.alter(LINK, "west")
    west.alter(LINK, "east")
    west.becomes("waiting", "circle")
    east.alter(PAUSED, "false")
    east.becomes("waiting", "circle")
    assert (east.read(), west.read()) == before


def test_unrelated_topics_stay_as_they_are(sides: tuple[Side, Side]) -> None:
    """If this fails, making a mirror of a topic with other records loses them."""
    east, west = sides
    for side, count in ((east, 100), (west, 200)):
        side.create()
        fill(side, count)
    before = east.read(), west.read()
    west.alter(LINK, "east")
    west.becomes("failed", "unrelated_logs")
    assert (east.read(), west.read()) == before


def test_another_number_of_partitions(sides: tuple[Side, Side]) -> None:
    """If this fails, partitions of a source are not copied, and that is seen after the failover."""
    east, west = sides
    east.create()
    fill(east, 100)
    more = NewTopic(west.topic, 3, 1, config={LINK: "east"})
    west.admin.create_topics([more])[west.topic].result(WAIT_S)
    mirrored(east, west)
    until(lambda: west.causes() == {("active", ""), ("failed", "no_partition")}, "the partition too many")

    fewer = f"{west.topic}-fewer"
    settings = {LINK: "east", SOURCE_TOPIC: east.topic}
    west.admin.create_topics([NewTopic(fewer, 1, 1, config=settings)])[fewer].result(WAIT_S)
    west.topic = fewer
    west.becomes("active", "fewer_partitions", "has 2 partitions, and this one 1")
    west.admin.create_partitions([NewPartitions(fewer, 2)])[fewer].result(WAIT_S)
    mirrored(east, west)
    west.becomes("active")


def test_a_source_of_an_old_version(sides: tuple[Side, Side]) -> None:
    """If this fails, a link to a cluster before Apache Kafka 3.1 fails again and again without a word."""
    _, west = sides

    async def job() -> None:
        async with OldBroker({int(ApiKey.METADATA): (0, 9), int(ApiKey.FETCH): (4, 12)}) as old:
            west.link("old", old.bootstrap)
            await asyncio.to_thread(lambda: west.create(**{LINK: "old"}))
            await asyncio.to_thread(west.becomes, "waiting", "old_source", "Metadata")

    asyncio.run(job())
