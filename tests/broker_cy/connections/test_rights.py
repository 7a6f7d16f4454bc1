"""Rights of the handlers in C, of the APIs of controllers, and the registry, which decides that each API has rules."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker_cy.access.authorization import Authorization
from broker_cy.broker.context import ForwardedContext, RequestContext
from broker_cy.broker.registry import ListenerKind, declared, registrations
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.errors import ErrorCode
from broker_cy.events.log_events import LogEvents
from broker_cy.handlers import load_handlers, produce
from broker_cy.metadata import topic_names
from broker_cy.metadata.topics import TopicImage
from broker_cy.replica.silence import FollowerSilence
from broker_cy.security.acls import ANONYMOUS, CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from broker_cy.security.authorizer import Authorizer
from broker_cy.wire import frame, messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import (
    CoreHarness,
    RawClient,
    fetch_from,
    fetch_request,
    produce_request,
    produce_to,
)
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, with_broker
from tests.support.raw_wire import RawBatch, RawRecord

load_handlers(ListenerKind.CONTROLLER)
TOPIC, CLUSTER, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


# --- the registry


def test_every_api_declares_its_rights() -> None:
    """If this fails, an API has no declared ACL operation: a broker with an authorizer denies it."""
    for kind in ListenerKind:
        served = registrations(kind)
        undecided = [entry.api_key.name for entry in served.values() if entry.requires is None]
        assert not undecided
        assert declared(served) == served
        anybody = {key for key, entry in served.items() if entry.requires == ""}
        assert anybody <= {
            ApiKey.API_VERSIONS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        }


def test_an_api_without_declared_rights_is_refused() -> None:
    """If this fails, a new API is open to every client."""
    served = dict(registrations())
    served[ApiKey.FETCH] = dataclasses.replace(served[ApiKey.FETCH], requires=None)
    assert set(served) - set(declared(served)) == {ApiKey.FETCH}


INTERNAL = [key for key in registrations(ListenerKind.CONTROLLER) if key not in registrations()] + [ApiKey.FETCH]


@pytest.mark.parametrize("key", INTERNAL, ids=lambda key: ApiKey(key).name)
def test_apis_of_controllers_are_for_nodes_of_the_cluster(tmp_path: Path, key: int) -> None:
    """If this fails, any client that can connect to a controller can register brokers, change leaders or read the
    metadata log.
    """
    entry = registrations(ListenerKind.CONTROLLER)[key]
    reached: list[str] = []

    async def work(broker: MetadataBroker) -> None:
        def record(*_: Any, **__: Any) -> Any:
            reached.append("controller")
            raise AssertionError("planted: the request got to the controller")

        ended_brokers = SimpleNamespace(note_report=record)
        controller = SimpleNamespace(submit=record, answer=record, is_active=True, ended_brokers=ended_brokers)
        services = SimpleNamespace(
            authorization=broker.authorization,
            controller=controller,
            image=broker.image,
            cluster_id="",
            config=broker.config,
        )
        for version in range(entry.min_version, entry.max_version + 1):
            for kind in (RequestContext, ForwardedContext):
                ctx = kind(cast(Any, services), key, version, "c", "192.0.2.1", "CONTROLLER", "", "User:guest")
                answer = entry.function(ctx, frame.request_class(key)())
                if inspect.isawaitable(answer):
                    answer = await answer
                assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # The same request of a node reaches it.
        ctx = RequestContext(cast(Any, services), key, entry.max_version, "c", "192.0.2.1", "CONTROLLER", "", ANONYMOUS)
        if key != ApiKey.ENVELOPE:
            with pytest.raises(AssertionError, match="planted"):
                await entry.function(ctx, frame.request_class(key)())
            assert reached == ["controller"]

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


def test_a_forwarded_request_has_the_rights_of_its_client(tmp_path: Path) -> None:
    """If this fails, every client has the permissions of the broker that forwards its request."""
    seen: list[tuple[str, str]] = []

    async def work(broker: MetadataBroker) -> None:
        from broker_cy.control.link import envelope

        def ask(principal: str) -> Any:
            ctx = RequestContext(
                cast(Any, broker), ApiKey.CREATE_TOPICS, 7, "c", "192.0.2.1", "PLAINTEXT", "", principal
            )
            topic = messages.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            inner = messages.CreateTopicsRequest(topics=[topic])
            return ctx, messages.EnvelopeRequest(
                request_data=envelope.request_data(ctx, inner),
                request_principal=envelope.principal_data(principal),
                client_host_address=envelope.packed_address(ctx.client_host),
            )

        for principal, expected in (("User:guest", DENIED), (ANONYMOUS, ErrorCode.NONE)):
            ctx, wrapped = ask(principal)
            answer = await broker.call(wrapped, 0, "CONTROLLER")
            assert answer.error_code == ErrorCode.NONE
            inner = envelope.read_response(ctx, messages.CreateTopicsResponse, answer.response_data)
            seen.append((principal, ErrorCode(inner.topics[0].error_code).name))
            assert inner.topics[0].error_code == expected
        # A sender without CLUSTER_ACTION may forward nothing, whatever principal it names.
        _, wrapped = ask(ANONYMOUS)
        answer = await broker.call(wrapped, 0, "CONTROLLER", principal="User:guest")
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


# --- Produce and Fetch


class Rig:
    """A server core with an authorizer; the client is User:ANONYMOUS from 127.0.0.1."""

    def __init__(self) -> None:
        self.core = CoreHarness()
        self.authorizer = Authorizer()
        self.is_loaded = True
        authorization = Authorization(self.authorizer, lambda: 1, lambda: int(self.is_loaded), LogEvents(MACHINE_CLOCK))

        def install() -> None:
            self.core.core.authorization = authorization
            produce.install(self.core.core)

        self.core.on_loop(install)
        self.number = 0
        self.kept: dict[int, Any] = {}

    def allow(self, operation: Operation, kind: ResourceType = TOPIC, name: str = "t", deny: bool = False) -> int:
        self.number += 1
        self.kept[self.number] = messages.AccessControlEntryRecord(
            id=UUID(int=self.number),
            resource_type=kind,
            resource_name=name,
            pattern_type=PatternType.LITERAL,
            principal=ANONYMOUS,
            host="127.0.0.1",
            operation=operation,
            permission_type=Permission.DENY if deny else Permission.ALLOW,
        )
        self.core.on_loop(lambda: self.authorizer.change([(None, self.kept[self.number])]))
        return self.number

    def drop(self, number: int) -> None:
        record = self.kept.pop(number)
        self.core.on_loop(lambda: self.authorizer.change([(record, None)]))

    def topic(self, name: str = "t", *, protected: bool = False) -> UUID:
        topic_id = self.core.topic(name, protected=protected)
        self.core.on_loop(lambda: self.core.image.topics.put(TopicImage(name, topic_id, {})))
        return topic_id


@pytest.fixture
def rig() -> Iterator[Rig]:
    found = Rig()
    yield found
    found.core.close()


def batch(transactional: bool = False) -> bytes:
    fields: dict[str, Any] = {}
    if transactional:
        fields = {"attributes": 0x10, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    return RawBatch(records=[RawRecord(value=b"v")], **fields).encode()


def end_of(rig: Rig, name: str = "t") -> int:
    def end() -> int:
        partition = rig.core.table.get(name, 0)
        assert partition is not None
        return partition.log.log_end_offset

    return int(rig.core.on_loop(end))


def test_produce_and_fetch_follow_the_acls_at_once(rig: Rig) -> None:
    """If this fails, a client keeps its access after its permission was revoked, on an open connection or in an
    existing fetch session.
    """
    rig.topic()
    client = rig.core.client()
    assert produce_to(client, "t", batch()).error_code == DENIED
    assert end_of(rig) == 0
    write = rig.allow(Operation.WRITE)
    assert produce_to(client, "t", batch()).error_code == 0
    assert fetch_from(client, "t", 0).error_code == DENIED
    read = rig.allow(Operation.READ)
    first = client.call(fetch_request("t", 0, 0, session_epoch=0), ApiKey.FETCH, 11, messages.FetchResponse)
    assert first.responses[0].partitions[0].records
    rig.drop(write)
    assert produce_to(client, "t", batch()).error_code == DENIED
    assert end_of(rig) == 1
    rig.drop(read)
    more = messages.FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=first.session_id, session_epoch=1
    )
    found = client.call(more, ApiKey.FETCH, 11, messages.FetchResponse)
    assert [each.error_code for topic in found.responses for each in topic.partitions] == [DENIED]
    assert not found.responses[0].partitions[0].records
    rig.allow(Operation.ALL)
    assert produce_to(client, "t", batch()).error_code == 0
    rig.allow(Operation.WRITE, deny=True)
    assert produce_to(client, "t", batch()).error_code == DENIED
    assert fetch_from(client, "t", 0).error_code == 0


def test_absent_topics_are_refused_like_others(rig: Rig) -> None:
    """If this fails, a client finds out by names which topics exist."""
    rig.topic()
    client = rig.core.client()
    for name in ("t", "absent"):
        assert produce_to(client, name, batch()).error_code == DENIED
        assert fetch_from(client, name, 0).error_code == DENIED


def test_topics_by_id(rig: Rig) -> None:
    """If this fails, a client can access by topic id what it cannot access by name."""
    topic_id = rig.topic()
    client = rig.core.client()
    request = messages.ProduceRequest
    data = request.PartitionProduceData(index=0, records=batch())

    def send(which: UUID) -> int:
        asked = request(
            acks=1, timeout_ms=1, topic_data=[request.TopicProduceData(topic_id=which, partition_data=[data])]
        )
        answer = client.call(asked, ApiKey.PRODUCE, 13, messages.ProduceResponse)
        return int(answer.responses[0].partition_responses[0].error_code)

    assert send(topic_id) == DENIED
    assert send(UUID(int=9)) == ErrorCode.UNKNOWN_TOPIC_ID
    rig.allow(Operation.WRITE)
    assert send(topic_id) == 0


def test_transactions_are_judged_by_their_batches(rig: Rig) -> None:
    """CVE-2018-17196. If this fails, a client that may write a topic writes into another producer's transaction."""
    rig.topic()
    rig.allow(Operation.WRITE)
    client = rig.core.client()
    for transactional_id in (None, "theirs"):
        request = produce_request("t", 0, batch(transactional=True))
        request.transactional_id = transactional_id
        answer = client.call(request, ApiKey.PRODUCE, 9, messages.ProduceResponse)
        result = answer.responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert end_of(rig) == 0


def test_a_client_cannot_pose_as_a_follower(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2018-1288. If this fails, a client that uses a broker's id moves the high watermark, or reads uncommitted
    records.
    """
    rig.topic()
    rig.allow(Operation.ALL)
    client = rig.core.client()
    assert produce_to(client, "t", batch()).error_code == 0
    heard: list[int] = []

    class Listening(FollowerSilence):
        def fetched(self, replica_id: int, *_: Any) -> None:
            heard.append(replica_id)

    rig.core.on_loop(lambda: setattr(rig.core.core, "silence", Listening.__new__(Listening)))
    assert fetch_from(client, "t", 0, replica_id=2).error_code == DENIED
    answer = client.call(
        fetch_request("t", 0, 0, replica_id=2, session_epoch=0), ApiKey.FETCH, 11, messages.FetchResponse
    )
    assert (answer.session_id, answer.responses[0].partitions[0].error_code) == (0, DENIED)
    assert heard == []
    # Replica id -2 is a debugging consumer, not a follower.
    assert fetch_from(client, "t", 0, replica_id=-2).error_code == 0


def test_brokers_write_their_own_topics_with_the_rights_of_brokers(rig: Rig) -> None:
    """If this fails, any client that uses the client id of brokers writes cluster events, or brokers cannot."""
    rig.topic(topic_names.CLUSTER_EVENTS, protected=True)

    class OwnClient(RawClient):
        def encode(self, request: Any, key: ApiKey, version: int) -> bytes:
            plain = super().encode(request, key, version)
            body = plain[14 + 4 :]
            name = topic_names.OWN_CLIENT.encode()
            payload = plain[4:12] + len(name).to_bytes(2, "big") + name + body
            return len(payload).to_bytes(4, "big") + payload

    client = OwnClient("127.0.0.1", rig.core.listener.port)
    assert produce_to(client, topic_names.CLUSTER_EVENTS, batch()).error_code == DENIED
    write = rig.allow(Operation.WRITE, name=topic_names.CLUSTER_EVENTS)
    assert produce_to(client, topic_names.CLUSTER_EVENTS, batch()).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    rig.drop(write)
    rig.allow(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert produce_to(client, topic_names.CLUSTER_EVENTS, batch()).error_code == 0


def test_nothing_before_the_acls_are_loaded() -> None:
    """If this fails, a broker that has just started applies ACLs that were replaced in the meantime."""
    found = Rig()
    try:
        found.is_loaded = False
        found.topic()
        found.allow(Operation.ALL)
        client = found.core.client()
        assert produce_to(client, "t", batch()).error_code == DENIED
        found.is_loaded = True
        assert produce_to(client, "t", batch()).error_code == 0
    finally:
        found.core.close()


def test_kept_masks_of_a_connection_are_bounded(rig: Rig) -> None:
    """If this fails, a client that names ever new topics fills the memory of the broker."""
    rig.topic()
    rig.allow(Operation.WRITE)
    client = rig.core.client()
    for first in range(0, 3_000, 500):
        request = messages.ProduceRequest
        data = [
            request.TopicProduceData(
                name=f"x{number}", partition_data=[request.PartitionProduceData(index=0, records=batch())]
            )
            for number in range(first, first + 500)
        ]
        answer = client.call(
            request(acks=1, timeout_ms=1, topic_data=data), ApiKey.PRODUCE, 9, messages.ProduceResponse
        )
        assert {each.partition_responses[0].error_code for each in answer.responses} == {DENIED}
    assert produce_to(client, "t", batch()).error_code == 0
    assert rig.core.on_loop(lambda: len(next(iter(rig.core.core.connections)).rights.masks)) <= 1024
