"""DescribeAcls, CreateAcls and DeleteAcls, alone and against Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_cy.controller import acl_ops
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import load_handlers
from broker_cy.security.acls import ANONYMOUS, Operation, PatternType, Permission, ResourceType
from broker_cy.security.authorizer import Authorizer
from broker_cy.wire import messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, with_broker
from tests.support import needs, recorded
from tests.support.cluster import ask
from tests.support.kafka_peer import KafkaPeer

load_handlers()
Create = messages.CreateAclsRequest
Delete = messages.DeleteAclsRequest
Describe = messages.DescribeAclsRequest
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, CLUSTER = int(ResourceType.TOPIC), int(ResourceType.CLUSTER)
LITERAL, PREFIXED, MATCH, ANY = 3, 4, 2, 1
READ, ALL = int(Operation.READ), int(Operation.ALL)


def creation(name: str = "t", **fields: Any) -> Any:
    given = {
        "resource_type": TOPIC,
        "resource_pattern_type": LITERAL,
        "principal": "User:a",
        "host": "*",
        "operation": READ,
        "permission_type": int(Permission.ALLOW),
        **fields,
    }
    return Create.AclCreation(resource_name=name, **given)


def create(*creations: Any) -> Create:
    return Create(creations=list(creations))


def selecting(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **fields,
    }


def describe(**fields: Any) -> Describe:
    return Describe(**selecting(**fields))


def delete(*filters: dict[str, Any]) -> Delete:
    return Delete(filters=[Delete.DeleteAclsFilter(**selecting(**each)) for each in filters])


REQUESTS: list[Any] = [
    describe(),
    create(creation(), creation(), creation("te", resource_pattern_type=PREFIXED), creation("*", operation=ALL)),
    create(creation("", operation=99), creation("x", resource_type=CLUSTER), creation("x", resource_type=99)),
    create(creation("x", permission_type=99), creation("x", principal="a"), creation("x", principal=":")),
    create(creation("x", resource_pattern_type=99), creation("y", operation=99), creation("x", host="not-a-host")),
    create(creation("kafka-cluster", resource_type=CLUSTER, operation=7), creation("test", principal="User:*")),
    create(creation("a:b", resource_type=7, operation=13), creation("tx", resource_type=5, operation=15)),
    create(),
    describe(),
    describe(resource_name_filter="test", pattern_type_filter=MATCH),
    describe(resource_name_filter="test", pattern_type_filter=LITERAL, resource_type_filter=TOPIC),
    describe(pattern_type_filter=PREFIXED),
    describe(principal_filter="User:*"),
    describe(host_filter="1.1.1.1"),
    describe(operation=ALL),
    describe(operation=77),
    describe(resource_type_filter=77),
    delete({"resource_name_filter": "nothing"}, {"operation": 77}, {"resource_name_filter": "t"}),
    # Two filters that select the same.
    delete({"resource_name_filter": "test", "pattern_type_filter": MATCH}, {"resource_name_filter": "te"}),
    create(creation()),
    describe(),
    delete({}),
    describe(),
    delete(),
]


def response_of(request: Any) -> type[Any]:
    return {
        Create: messages.CreateAclsResponse,
        Delete: messages.DeleteAclsResponse,
        Describe: messages.DescribeAclsResponse,
    }[type(request)]


def plain(response: Any) -> Any:
    """Return the answer without the order of entries, which has no meaning."""
    if isinstance(response, messages.CreateAclsResponse):
        return [(ErrorCode(each.error_code).name, each.error_message) for each in response.results]
    if isinstance(response, messages.DeleteAclsResponse):
        return [
            (ErrorCode(each.error_code).name, each.error_message, sorted(map(repr, each.matching_acls)))
            for each in response.filter_results
        ]
    found = sorted(
        (each.resource_type, each.resource_name, each.pattern_type, sorted(map(repr, each.acls)))
        for each in response.resources
    )
    return ErrorCode(response.error_code).name, response.error_message, found


@pytest.mark.full
@needs.kafka
def test_kafka_gives_the_recorded_answers(tmp_path: Path) -> None:
    """If this fails, our answers are compared with those that no Kafka gives."""
    settings = {"authorizer.class.name": STANDARD, "super.users": ANONYMOUS}
    kafka = KafkaPeer(tmp_path / "kafka", settings)
    try:
        kafka.start()
        recorded.check("acls", [plain(ask(kafka.port, request, response_of(request))) for request in REQUESTS])
    finally:
        kafka.close()


def test_the_same_answers_as_kafka(tmp_path: Path) -> None:
    """If this fails, a tool shows or changes other ACLs here than with Kafka."""
    ours = []

    async def work(broker: MetadataBroker) -> None:
        ours.extend([plain(await broker.call(request, 3)) for request in REQUESTS])

    with_broker(tmp_path / "ours", work, authorizer=Authorizer([ANONYMOUS]))
    both = zip(REQUESTS, recorded.as_recorded(ours), recorded.of_kafka("acls"), strict=True)
    assert not [(request, one, other) for request, one, other in both if one != other]


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_any_is_for_filters(tmp_path: Path, field: str) -> None:
    """If this fails, an entry is kept that no tool can show. Kafka fails without saying why."""

    async def work(broker: MetadataBroker) -> None:
        wrong: list[dict[str, Any]] = [{field: ANY}, {field: 0}]
        asked = create(*(creation("x", **each) for each in wrong), creation("y"))
        found = plain(await broker.call(asked, 3))
        assert [code for code, _ in found] == ["INVALID_REQUEST", "INVALID_REQUEST", "NONE"]
        assert [record.resource_name for record in broker.image.acls()] == ["y"]

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


def test_no_authorizer_no_acls(tmp_path: Path) -> None:
    """If this fails, an operator believes that ACLs are in effect although no authorizer checks them."""

    async def work(broker: MetadataBroker) -> None:
        described = await broker.call(describe(), 1)
        assert (described.error_code, described.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )
        refused = ("SECURITY_DISABLED", "No Authorizer is configured.")
        assert plain(await broker.call(create(creation()), 1)) == [refused]
        assert plain(await broker.call(delete({}), 1)) == [(*refused, [])]
        assert not list(broker.image.acls())

    with_broker(tmp_path, work)


def test_who_may_see_and_change_acls(tmp_path: Path) -> None:
    """If this fails, any client can grant itself all permissions."""
    grant = create(
        creation("kafka-cluster", resource_type=CLUSTER, operation=int(Operation.DESCRIBE), principal="User:see"),
        creation("kafka-cluster", resource_type=CLUSTER, operation=int(Operation.ALTER), principal="User:change"),
    )

    async def work(broker: MetadataBroker) -> None:
        assert plain(await broker.call(grant, 3)) == [("NONE", "")] * 2
        for who, sees, changes in (("User:no", False, False), ("User:see", True, False), ("User:change", True, True)):
            described = await broker.call(describe(), 3, principal=who)
            assert bool(described.resources) is sees
            assert described.error_code == (0 if sees else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            created = await broker.call(create(creation()), 3, principal=who)
            deleted = await broker.call(delete({"resource_type_filter": TOPIC}), 3, principal=who)
            for result in (*created.results, *deleted.filter_results):
                assert result.error_code == (0 if changes else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


def test_acls_survive_a_restart_and_a_snapshot(tmp_path: Path) -> None:
    """If this fails, a restart locks all clients out, or lets denied clients in."""

    async def work() -> None:
        async with MetadataBroker(tmp_path, authorizer=Authorizer([ANONYMOUS])) as broker:
            await broker.call(create(creation(), creation("t", principal="User:b")), 3)
            await broker.call(delete({"principal_filter": "User:b"}), 3)
            twin = broker.image.copy()
            assert [record.principal for record in twin.acls()] == ["User:a"]
        authorizer = Authorizer([ANONYMOUS])
        async with MetadataBroker(tmp_path, authorizer=authorizer) as broker:
            assert authorizer.allows("User:a", "h", Operation.READ, ResourceType.TOPIC, "t")
            assert not authorizer.allows("User:b", "h", Operation.READ, ResourceType.TOPIC, "t")

    run(work)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one request stalls the controller, or a part of it is carried out and reported as an error."""
    monkeypatch.setattr(acl_ops, "RECORDS_PER_STEP_MAX", 2)

    async def work(broker: MetadataBroker) -> None:
        for name in "abc":
            await broker.call(create(creation(name)), 3)
        (result,) = plain(await broker.call(delete({}), 3))
        assert result == ("INVALID_REQUEST", "Cannot remove more than 2 acls in a single delete operation.", [])
        assert len(list(broker.image.acls())) == 3
        many = create(*(creation(f"x{number}") for number in range(10_001)))
        assert {result.error_code for result in (await broker.call(many, 3)).results} == {ErrorCode.POLICY_VIOLATION}
        assert len(list(broker.image.acls())) == 3

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


def test_nobody_but_super_users_before_the_acls_are_loaded(tmp_path: Path) -> None:
    """If this fails, a node that lags behind the committed metadata applies replaced ACLs."""

    async def work(broker: MetadataBroker) -> None:
        all_rights = creation("kafka-cluster", resource_type=CLUSTER, operation=ALL)
        await broker.call(create(all_rights), 3)
        assert (await broker.call(describe(), 3, principal="User:a")).error_code == 0
        assert broker.authorization is not None
        broker.authorization._is_loaded = False
        broker.authorization._wanted_end = broker.image.offset + 10
        response = await broker.call(describe(), 3, principal="User:a")
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await broker.call(describe(), 3)).error_code == 0
        assert broker.authorization.mask("User:a", "h", ResourceType.CLUSTER, "kafka-cluster") == 0

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


def test_a_failed_change_reads_all_acls_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a defect in the index leaves it with a part of the ACLs: a denial may be missing."""
    authorizer = Authorizer([ANONYMOUS])

    async def work(broker: MetadataBroker) -> None:
        def broken(changes: Any) -> None:
            raise RuntimeError("planted")

        monkeypatch.setattr(authorizer, "change", broken)
        await broker.call(create(creation()), 3)
        assert authorizer.allows("User:a", "h", Operation.READ, ResourceType.TOPIC, "t")

    with_broker(tmp_path, work, authorizer=authorizer)


def test_kinds_of_patterns() -> None:
    """The numbers above are those of the protocol."""
    assert (LITERAL, PREFIXED, MATCH, ANY) == (
        PatternType.LITERAL,
        PatternType.PREFIXED,
        PatternType.MATCH,
        PatternType.ANY,
    )
