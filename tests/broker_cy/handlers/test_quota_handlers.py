"""AlterClientQuotas and DescribeClientQuotas, alone and against Apache Kafka."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import load_handlers
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.replay import replay
from broker_cy.metadata.snapshot import records_of
from broker_cy.security.acls import ANONYMOUS
from broker_cy.security.authorizer import Authorizer
from broker_cy.wire import messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, with_broker
from tests.broker_cy.handlers.metadata_broker import until as in_time
from tests.broker_cy.handlers.test_acl_handlers import CLUSTER, create, creation
from tests.support import needs, recorded
from tests.support.cluster import ask, topics
from tests.support.kafka_peer import KafkaPeer
from tests.support.logs import fields_of
from tests.support.wait import until

load_handlers()
Alter = messages.AlterClientQuotasRequest
Describe = messages.DescribeClientQuotasRequest
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
PRODUCE, FETCH, TIME, CHANGES, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


def entry(entity: dict[str, str | None] | list[tuple[str, str | None]], *ops: tuple[str, float | None]) -> Any:
    """Changes of one entity; the value None removes the quota."""
    parts = entity.items() if isinstance(entity, dict) else entity
    return Alter.EntryData(
        entity=[Alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[Alter.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def alter(*entries: Any, validate_only: bool = False) -> Alter:
    return Alter(entries=list(entries), validate_only=validate_only)


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> Describe:
    parts = [Describe.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return Describe(components=parts, strict=strict)


ALICE: dict[str, str | None] = {"user": "alice"}
BOTH: dict[str, str | None] = {"user": "alice", "client-id": "app"}
FILTERS = [
    describe(strict=strict) if components is None else describe(*components, strict=strict)
    for strict in (False, True)
    for components in (
        None,
        [("user", EXACT, "alice")],
        [("user", DEFAULT, None)],
        [("user", SPECIFIED, None)],
        [("client-id", SPECIFIED, None)],
        [("user", SPECIFIED, None), ("client-id", EXACT, "app")],
        [("user", DEFAULT, None), ("client-id", DEFAULT, None)],
        [("ip", SPECIFIED, None)],
        [("ip", DEFAULT, None)],
        [("ip", EXACT, "10.0.0.1")],
        [("user", EXACT, "nobody")],
    )
]
REQUESTS: list[Any] = [
    describe(),
    alter(entry(ALICE, (PRODUCE, 1000.0), (FETCH, 2000.5)), entry({"user": None}, (TIME, 12.5))),
    alter(entry(ALICE, (PRODUCE, 1000.0), (FETCH, 2000.0)), entry(BOTH, (CHANGES, 0.25))),
    alter(entry({"user": None, "client-id": None}, (FETCH, 1.0)), entry({"client-id": None}, (FETCH, 2.0))),
    alter(entry({"user": None, "client-id": "app"}, (FETCH, 1.0)), entry({"user": "x", "client-id": None}, (TIME, 2))),
    alter(entry({"client-id": "app"}, (TIME, 250.0)), entry({"client-id": "a b/ü"}, (TIME, 1e-9))),
    alter(entry({"ip": "10.0.0.1"}, (CONNECTIONS, 5.0)), entry({"ip": None}, (CONNECTIONS, 2**31 - 1.0))),
    alter(entry({"ip": "::1"}, (CONNECTIONS, 5.0)), entry({"ip": "1.1.1.1.1"}, (CONNECTIONS, 5.0))),
    # Keys of other entities, unknown ones, and values out of range.
    alter(entry({"ip": "10.0.0.2"}, (PRODUCE, 5.0)), entry({"user": "b"}, (CONNECTIONS, 5.0))),
    alter(entry({"ip": "10.0.0.2"}, (CONNECTIONS, 2.0**31)), entry({"user": "b"}, ("producer-byte-rate", 5.0))),
    alter(entry({"user": "b"}, (PRODUCE, 2.0**63)), entry({"user": "c"}, (PRODUCE, 2.0**64))),
    alter(entry({"user": "b"}, (PRODUCE, 0.0)), entry({"user": "c"}, (TIME, -1.0)), entry({"user": "d"}, (TIME, 0.0))),
    alter(entry({"user": "b"}, (PRODUCE, 1.0000001)), entry({"user": "c"}, (PRODUCE, 1.1))),
    alter(entry({"user": "b"}, (PRODUCE, math.inf)), entry({"user": "c"}, (TIME, math.inf))),
    alter(entry({"user": "b"}, (PRODUCE, math.nan)), entry({"user": "c"}, (CHANGES, math.nan))),
    # One wrong key leaves the others of the entity as they were.
    alter(entry({"user": "e"}, (PRODUCE, 5.0), ("x", 5.0))),
    # A key or an entity twice.
    alter(entry({"user": "f"}, (PRODUCE, 5.0), (PRODUCE, 6.0))),
    alter(entry({"user": "g"}, (PRODUCE, 5.0)), entry({"user": "g"}, (FETCH, 6.0)), entry({"user": "g"}, (TIME, 6.0))),
    alter(entry({"user": "h", "client-id": None}, (PRODUCE, 5.0), (PRODUCE, None))),
    alter(entry([("user", "i"), ("user", "j")], (PRODUCE, 5.0))),
    # Invalid entities.
    alter(entry({}, (PRODUCE, 5.0)), entry({"user": ""}, (PRODUCE, 5.0)), entry({"topic": "t"}, (PRODUCE, 5.0))),
    alter(entry({"client-id": ""}, (PRODUCE, 5.0)), entry({"ip": ""}, (CONNECTIONS, 5.0))),
    alter(entry({"ip": "10.0.0.1", "user": "a"}, (CONNECTIONS, 5.0)), entry({"ip": None, "client-id": None})),
    alter(entry({"user": "k"})),
    alter(entry({"user": "l"}, (PRODUCE, 5.0)), entry({"user": ""}, (PRODUCE, 5.0)), validate_only=True),
    alter(),
    *FILTERS,
    # Filters that are refused.
    describe(("", EXACT, "a")),
    describe(("user", EXACT, "a"), ("user", SPECIFIED, None)),
    describe(("topic", EXACT, "a")),
    describe(("user", EXACT, None)),
    describe(("user", DEFAULT, "a")),
    describe(("user", SPECIFIED, "a")),
    describe(("user", 3, None)),
    describe(("user", -1, "a")),
    describe(("ip", SPECIFIED, None), ("client-id", EXACT, "a")),
    describe(("user", DEFAULT, None), ("ip", EXACT, "a")),
    # Removals of existing and missing quotas, one with an unknown key.
    alter(entry(ALICE, (PRODUCE, None), (TIME, None), ("x", None)), entry({"user": None}, (TIME, None))),
    alter(entry({"ip": "10.0.0.1"}, (CONNECTIONS, None)), entry({"ip": "10.9.9.9"}, (CONNECTIONS, None))),
    alter(entry(BOTH, (CHANGES, None), (PRODUCE, 7.0))),
    describe(),
]


def response_of(request: Any) -> type[Any]:
    return messages.AlterClientQuotasResponse if isinstance(request, Alter) else messages.DescribeClientQuotasResponse


def plain(response: Any) -> Any:
    """The results by entity: their order has no meaning."""
    found = []
    for each in response.entries or ():
        entity = sorted((part.entity_type, part.entity_name or repr(part.entity_name)) for part in each.entity)
        values = sorted((value.key, repr(value.value)) for value in getattr(each, "values", ()))
        error = ErrorCode(getattr(each, "error_code", 0)).name, getattr(each, "error_message", None)
        found.append((entity, error, values))
    whole = getattr(response, "error_code", 0), getattr(response, "error_message", None), response.entries is None
    return whole, sorted(found)


@pytest.mark.full
@needs.kafka
def test_kafka_gives_the_recorded_answers(tmp_path: Path) -> None:
    """If this fails, our answers are compared with those that no Kafka gives."""
    kafka = KafkaPeer(tmp_path / "kafka", {})
    try:
        kafka.start()
        recorded.check("quotas", [plain(ask(kafka.port, request, response_of(request))) for request in REQUESTS])
    finally:
        kafka.close()


def test_the_same_answers_as_kafka(tmp_path: Path) -> None:
    """If this fails, a tool shows or changes other quotas here than with Kafka."""
    theirs = recorded.of_kafka("quotas")
    ours = []

    async def work(broker: MetadataBroker) -> None:
        ours.extend([plain(await broker.call(request, 1)) for request in REQUESTS])

    with_broker(tmp_path / "ours", work)
    both = zip(REQUESTS, recorded.as_recorded(ours), theirs, strict=True)
    different = [(request, one, other) for request, one, other in both if one != other]
    assert not different, "\n".join(map(str, different))
    assert len(theirs[-1][1]) > 10


def test_quotas_survive_a_restart_and_a_snapshot(tmp_path: Path) -> None:
    """If this fails, a client that was held back before a restart is not held back after it."""
    kept = [([("client-id", "app"), ("user", "alice")], ("NONE", None), [(PRODUCE, "5.0")])]

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            await broker.call(alter(entry(BOTH, (PRODUCE, 5.0), (FETCH, 6.0)), entry(ALICE, (TIME, 1.0))), 1)
            await broker.call(alter(entry(BOTH, (FETCH, None)), entry(ALICE, (TIME, None))), 1)
            assert plain(await broker.call(describe(), 1))[1] == kept
        async with MetadataBroker(tmp_path) as broker:
            assert plain(await broker.call(describe(), 1))[1] == kept
            twin = MetadataImage()
            for record in records_of(broker.image):
                replay(twin, record.message)
            assert list(twin.quotas()) == list(broker.image.quotas())

    run(work)


def test_who_may_see_and_change_quotas(tmp_path: Path) -> None:
    """If this fails, a client lifts its own quota."""
    describe_configs, alter_configs = 10, 11
    grant = create(
        creation("kafka-cluster", resource_type=CLUSTER, operation=describe_configs, principal="User:see"),
        creation("kafka-cluster", resource_type=CLUSTER, operation=alter_configs, principal="User:change"),
    )

    async def work(broker: MetadataBroker) -> None:
        await broker.call(grant, 3)
        for who, sees, changes in (("User:no", False, False), ("User:see", True, False), ("User:change", True, True)):
            described = await broker.call(describe(), 1, principal=who)
            assert described.error_code == (0 if sees else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            (altered,) = (await broker.call(alter(entry(ALICE, (TIME, 1.0))), 1, principal=who)).entries
            assert altered.error_code == (0 if changes else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            assert len(list(broker.image.quotas())) == changes

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


def test_a_request_that_is_too_large_changes_nothing(tmp_path: Path) -> None:
    """If this fails, one request stalls the controller, or a part of it is carried out and reported as an error."""

    async def work(broker: MetadataBroker) -> None:
        many = alter(*(entry({"user": f"u{number}"}, (TIME, 1.0)) for number in range(10_001)))
        answered = (await broker.call(many, 1)).entries
        assert {each.error_code for each in answered} == {ErrorCode.POLICY_VIOLATION}
        assert not list(broker.image.quotas())

    with_broker(tmp_path, work)


def test_an_error_of_all_is_that_of_each_entity(tmp_path: Path) -> None:
    """If this fails, a client whose broker finds no controller considers its change done."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            pass
        answered = (await broker.call(alter(entry(ALICE, (TIME, 1.0)), entry(BOTH, (TIME, 1.0))), 1)).entries
        assert [(len(each.entity), each.error_code) for each in answered] == [
            (1, ErrorCode.NOT_CONTROLLER),
            (2, ErrorCode.NOT_CONTROLLER),
        ]

    run(work)


Topics = messages.CreateTopicsRequest
Deletion = messages.DeleteTopicsRequest
Partitions = messages.CreatePartitionsRequest


def create_topics(*names: str, partitions: int = 1, **fields: Any) -> Topics:
    topics = [Topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return Topics(topics=topics, timeout_ms=30_000, **fields)


def delete_topics(*names: str) -> Deletion:
    return Deletion(topics=[Deletion.DeleteTopicState(name=name) for name in names], timeout_ms=30_000)


def create_partitions(count: int, *names: str) -> Partitions:
    return Partitions(
        topics=[Partitions.CreatePartitionsTopic(name=name, count=count, assignments=None) for name in names],
        timeout_ms=30_000,
    )


def asked_for(name: str) -> messages.MetadataRequest:
    return messages.MetadataRequest(
        topics=[messages.MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
    )


# The client id of a client with its own quota.
AUTO = "auto"
# A bucket of 110 partitions, which is hardly refilled during the test: at zero it is not exceeded yet.
CHANGES_OF_TOPICS: list[Any] = [
    create_topics("a", "b", partitions=50),
    create_topics("c", partitions=30, validate_only=True),
    create_topics("c", "d", partitions=1),
    create_topics("a", ""),
    create_partitions(51, "a", "nothing"),
    delete_topics("a", "nothing", "b"),
]


def refused(response: Any) -> Any:
    """Return the errors by topic, and whether the client is throttled."""
    found = getattr(response, "topics", None) or getattr(response, "responses", None) or response.results
    errors = {each.name: (ErrorCode(each.error_code).name, each.error_message) for each in found}
    return errors, response.throttle_time_ms > 0


QUOTA_OF_CHANGES = alter(
    entry({"user": None}, (CHANGES, 1e-3)), entry({"user": None, "client-id": AUTO}, (CHANGES, 1e-3))
)
# So that the bucket is of 110 partitions all the same.
OF_CHANGES = {
    "controller.quota.window.num": "11",
    "controller.quota.window.size.seconds": "10000",
    "num.partitions": "60",
}


@pytest.mark.full
@needs.kafka
def test_kafka_gives_the_recorded_refusals(tmp_path: Path) -> None:
    """If this fails, our refusals are compared with those that no Kafka gives."""
    quota = QUOTA_OF_CHANGES
    answered: dict[type[Any], type[Any]] = {
        Topics: messages.CreateTopicsResponse,
        Deletion: messages.DeleteTopicsResponse,
        Partitions: messages.CreatePartitionsResponse,
    }
    kafka = KafkaPeer(tmp_path / "kafka", OF_CHANGES)
    theirs = []
    try:
        kafka.start()
        assert plain(ask(kafka.port, quota, response_of(quota)))[1][0][1] == ("NONE", None)
        until(lambda: bool(ask(kafka.port, describe(), response_of(describe())).entries), "the quota to be known")
        for request in CHANGES_OF_TOPICS:
            theirs.append(refused(ask(kafka.port, request, answered[type(request)])))
        # Topics that are created automatically on request: 120 of 110.
        for name in ("x", "y"):
            request = asked_for(name)
            ask(kafka.port, request, messages.MetadataResponse, AUTO)
            until(lambda name=name: name in topics(kafka.port), "the topic")  # type: ignore[misc]
        theirs.append(refused(ask(kafka.port, create_topics("z"), messages.CreateTopicsResponse, AUTO)))
        ask(kafka.port, asked_for("late"), messages.MetadataResponse, AUTO)
    finally:
        kafka.close()
    recorded.check("refused_changes", theirs)


def test_changes_beyond_the_quota_are_refused_as_by_kafka(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a client creates more partitions than its quota allows, or fewer than Kafka allows."""
    theirs = recorded.of_kafka("refused_changes")
    ours = []

    async def work(broker: MetadataBroker) -> None:
        await broker.call(QUOTA_OF_CHANGES, 1)
        for request in CHANGES_OF_TOPICS:
            version = {Topics: 7, Deletion: 6, Partitions: 3}[type(request)]
            ours.append(refused(await broker.call(request, version)))
        for name in ("x", "y"):
            await broker.call(asked_for(name), 9, client_id=AUTO)
            await in_time(lambda name=name: broker.image.topics.by_name(name) is not None)  # type: ignore[misc]
        ours.append(refused(await broker.call(create_topics("z"), 7, client_id=AUTO)))
        await broker.call(asked_for("late"), 9, client_id=AUTO)
        await in_time(lambda: "could not create topics" in caplog.text)
        assert broker.image.topics.by_name("late") is None

    with_broker(tmp_path / "ours", work, OF_CHANGES)
    (failure,) = (each for each in caplog.records if each.getMessage() == "could not create topics")
    assert fields_of(failure)["reason"].startswith("THROTTLING_QUOTA_EXCEEDED")
    for request, one, other in zip([*CHANGES_OF_TOPICS, "z"], recorded.as_recorded(ours), theirs, strict=True):
        assert one == other, request
    assert [waits for _, waits in theirs] == [False, False, True, False, True, True, True]


def test_older_clients_wait_for_their_changes(tmp_path: Path) -> None:
    """If this fails, a client that does not know THROTTLING_QUOTA_EXCEEDED fails, or need not wait."""

    async def work(broker: MetadataBroker) -> None:
        await broker.call(alter(entry({"user": None}, (CHANGES, 1.0))), 1)
        errors, waits = refused(await broker.call(create_topics("a", "b", "c", partitions=8), 5))
        assert ({code for code, _ in errors.values()}, waits) == ({"NONE"}, True)
        errors, waits = refused(await broker.call(create_partitions(9, "a"), 2))
        assert (errors["a"][0], waits) == ("NONE", True)
        request = Deletion(topic_names=["a", "b"], timeout_ms=30_000)
        errors, waits = refused(await broker.call(request, 4))
        assert ({code for code, _ in errors.values()}, waits) == ({"NONE"}, True)
        assert [topic.name for topic in broker.image.topics] == ["c"]
        ((key, meter),) = broker.quotas.meters()
        assert (key, meter.waits) == (CHANGES, 3)

    with_broker(tmp_path, work)
