"""Instances of a group that elects the one that writes, among themselves and with Confluent's registry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from broker_registry.errors import Code
from tests.broker_registry.elections import ELECTION, ELECTION_S, registered
from tests.broker_registry.operations.support import record_of
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess, Reply
from tests.support.registry_peer import peer_of
from tests.support.sasl_broker import write_properties
from tests.support.wait import until


@pytest.fixture
def settings(topic: str, tmp_path: Path) -> Path:
    """The properties of all instances of a test; its group is named after its topic."""
    path = tmp_path / "schema-registry.properties"
    write_properties(path, {**ELECTION, "schema.registry.group.id": topic, "kafkastore.topic": topic})
    return path


def instances(broker: BrokerProcess, settings: Path, count: int) -> list[RegistryProcess]:
    return [RegistryProcess(broker.bootstrap, settings.parent, [str(settings)], f"r{each}") for each in range(count)]


def end(found: Sequence[RegistryProcess]) -> None:
    for each in found:
        each.kill()


def test_any_instance_takes_changes_and_one_writes(broker: BrokerProcess, settings: Path) -> None:
    """If this fails, a client of an instance that does not write gets errors, or two instances give one id."""
    found = instances(broker, settings, 2)
    try:
        for each in found:
            each.wait()
        texts = [record_of("x:int", name=f"R{number}") for number in range(6)]
        ids = [registered(found[number % 2], f"s{number}", text).body["id"] for number, text in enumerate(texts)]
        assert ids == [1, 2, 3, 4, 5, 6]
        # Errors of the leader are those of the instance that was asked.
        for each in found:
            reply = each.register("s0", record_of("x:int", "y:string", name="R0"))
            assert (reply.status, reply.body["error_code"]) == (409, 409)
            assert each.call("PUT", "/config/s1", {"compatibility": "NONE"}).body == {"compatibility": "NONE"}
            assert each.call("DELETE", "/subjects/none").body["error_code"] == Code.SUBJECT_NOT_FOUND
        # A request that was forwarded is not forwarded again: one of them does not lead.
        body = {"schema": record_of("x:int", name="Z")}
        statuses = [
            each.call("POST", "/subjects/z/versions", body, {"X-Forward": "true"}).body.get("error_code", 200)
            for each in found
        ]
        assert sorted(statuses) in ([200, Code.UNKNOWN_LEADER], [200, 200])
        leader = statuses.index(200)
        found[leader].kill()
        other = found[1 - leader]
        assert registered(other, "s6", record_of("x:int", name="R6")).body["id"] == 8
        assert other.get("/schemas/ids/1/versions") == [{"subject": "s0", "version": 1}]
    finally:
        end(found)


def test_changes_go_to_confluents_registry_if_it_leads(broker: BrokerProcess, settings: Path, topic: str) -> None:
    """If this fails, both registries write one topic during a move, and ids get two meanings."""
    settings.write_text(settings.read_text() + "\nhost.name=localhost\n")
    text = record_of("x:int")
    with peer_of(broker.bootstrap, topic, is_eligible=True) as peer:
        assert peer.leader == peer.url
        (ours,) = found = instances(broker, settings, 1)
        try:
            ours.wait()
            peer.answers = [(200, {"id": 77}), (422, {"error_code": 42201, "message": "no"})]
            headers = {"Authorization": "Basic YTpi", "Accept": "application/json"}
            path = "/subjects/a%2Fb/versions?normalize=true"
            reply = ours.call("POST", path, {"schema": text}, headers)
            assert reply == Reply(200, {"id": 77})
            assert ours.register("c", text).body == {"error_code": 42201, "message": "no"}
            first = peer.forwarded[0]
            assert (first.method, first.path, first.body) == ("POST", path, {"schema": text})
            assert first.headers["x-forward"] == "true"
            assert (first.headers["authorization"], first.headers["accept"]) == ("Basic YTpi", "application/json")
            assert ours.get("/subjects") == []
            # It ends, as at the end of a move: ours is elected, and writes.
            peer.close()
            assert registered(ours, "a", text).body["id"] == 1
        finally:
            end(found)


def test_ours_leads_beside_an_instance_that_may_not(broker: BrokerProcess, settings: Path, topic: str) -> None:
    """If this fails, no instance writes after the old ones got leader.eligibility=false for the move."""
    with peer_of(broker.bootstrap, topic, is_eligible=False) as peer:
        (ours,) = found = instances(broker, settings, 1)
        try:
            ours.wait()
            until(lambda: peer.leader == ours.url, "the election of ours", ELECTION_S)
            assert registered(ours, "a", record_of("x:int")).body["id"] == 1
            assert peer.forwarded == []
        finally:
            end(found)


def test_without_a_leader_changes_fail_and_reads_go_on(broker: BrokerProcess, settings: Path) -> None:
    """If this fails, an instance that may not lead writes, or ends."""
    settings.write_text(settings.read_text() + "\nleader.eligibility=false\nkafkastore.timeout.ms=1000\n")
    (ours,) = found = instances(broker, settings, 1)
    try:
        ours.wait()
        reply = ours.register("a", record_of("x:int"))
        assert (reply.status, reply.body["error_code"]) == (500, Code.UNKNOWN_LEADER)
        assert ours.get("/subjects") == []
        ours.stop()
    finally:
        end(found)
