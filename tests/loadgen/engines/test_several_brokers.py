"""A cluster whose partitions have leaders on several brokers."""

from __future__ import annotations

from collections.abc import Iterator

import gevent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.engines.raw import spread
from loadgen.scenario.profile import RateProfile
from loadgen.verify.source import Source
from tests.support import needs
from tests.support.kafka_cluster import NODES, kafka_cluster
from tests.support.kafka_peer import KafkaPeer
from tests.support.load_rig import Rig

PARTITIONS = 6


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaPeer]]:
    with kafka_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.mark.full
@needs.kafka
@pytest.mark.parametrize("engine", ["raw", "librdkafka"])
def test_every_leader_is_written_and_read(nodes: list[KafkaPeer], topic: str, engine: str) -> None:
    """If this fails, the load of a cluster goes to one of its brokers, or is verified on one of them."""
    address = (nodes[0].host, nodes[0].port)
    options = {"connections": 1} if engine == "raw" else {}
    load = Rig(address, topic, partitions=PARTITIONS, engine=engine, rate=RateProfile.constant(240), options=options)
    try:
        with Source((address,), 30) as source:
            assert len(source.leaders(topic)) == NODES
        figures = load.run(1.0)
        found = load.verify()
    finally:
        load.close()
    assert figures.errors == {}
    assert found.is_good
    assert found.total.read == figures.records == 240
    assert all(each.counts.read for each in found.partitions)


@given(
    st.dictionaries(st.integers(0, 30), st.sampled_from([("a", 1), ("b", 2), ("c", 3)]), min_size=1),
    st.integers(1, 20),
)
def test_connections_share_the_partitions_of_their_leader(
    leaders: dict[int, tuple[str, int]], connections: int
) -> None:
    """If this fails, a partition gets no load, or a request goes to a broker that does not lead its partition."""
    places = spread(leaders, connections)
    assert len(places) == max(connections, len(set(leaders.values())))
    for address, partitions in places:
        assert partitions
        assert {leaders[partition] for partition in partitions} == {address}
    assert {partition for _, partitions in places for partition in partitions} == set(leaders)


@pytest.mark.full
@needs.kafka
def test_a_leader_that_is_killed_loses_nothing(nodes: list[KafkaPeer], topic: str) -> None:
    """If this fails, the C driver writes to a dead leader forever, or reports its open requests as lost.

    Runs last: it ends a node. Its partitions have one replica each, so they come back with the node.
    """
    address = (nodes[0].host, nodes[0].port)
    load = Rig(address, topic, partitions=PARTITIONS, engine="raw", rate=RateProfile.constant(240))

    def kill() -> None:
        gevent.sleep(0.3)
        nodes[2].kill()
        gevent.get_hub().threadpool.spawn(nodes[2].restart).get()

    try:
        killing = gevent.spawn(kill)
        figures = load.run(2.0)
        killing.join()
        # The node is back: its partitions are written again, shortly after new connections are made.
        load.run(2.0)
        again = load.run(1.0)
        found = load.verify()
    finally:
        load.close()
    assert found.is_good
    assert figures.failures > 0
    assert figures.failures + figures.requests == 480
    assert (again.requests, again.errors) == (240, {})
