"""The ACLs of the cluster: when they are read, and what counts while they cannot be."""

from __future__ import annotations

import asyncio

import pytest

from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Binding, Operation, ResourceType
from broker_registry.errors import RegistryError
from broker_registry.security import cluster_acls
from broker_registry.security.access import Access, topic_of
from broker_registry.security.cluster_acls import STALE_S, ClusterAcls
from tests.broker_registry.api.support import allow

ALICE, ADMIN = "User:alice", "User:admin"
READ = allow(ALICE, Operation.READ, "orders")


class Rig:
    """ACLs of brokers that may fail, and a clock that the test moves."""

    def __init__(self, *, allow_if_no_acl: bool = False) -> None:
        self.now_s = 0.0
        self.bindings: list[Binding] = [READ]
        self.error: ClientError | None = None
        self.asked = 0
        self.acls = ClusterAcls(self.describe, [ADMIN], allow_if_no_acl=allow_if_no_acl, now_s=lambda: self.now_s)

    async def describe(self) -> list[Binding]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return list(self.bindings)

    def read(self) -> None:
        asyncio.run(self.acls.read())

    def may(self, operation: Operation = Operation.DESCRIBE, principal: str = ALICE) -> bool:
        return Access(principal, "10.0.0.1", self.acls).may(operation, "orders-value")


def test_a_change_counts_when_it_is_read() -> None:
    """If this fails, a right that was taken away counts until a restart."""
    rig = Rig()
    rig.read()
    assert rig.may()
    assert not rig.may(Operation.WRITE)
    rig.bindings = []
    assert rig.may()
    rig.read()
    assert not rig.may()


def test_nothing_is_allowed_before_the_acls_are_known() -> None:
    """If this fails, the registry is open while it starts."""
    for rig in (Rig(), Rig(allow_if_no_acl=True)):
        with pytest.raises(RegistryError) as caught:
            rig.may()
        assert caught.value.status == 503
        assert rig.may(principal=ADMIN)


def test_acls_that_cannot_be_read_count_for_a_while() -> None:
    """If this fails, a restart of the brokers stops all serializers, or a right outlives its end without a bound."""
    rig = Rig()
    rig.read()
    rig.error = ClientError(Failure.UNREACHABLE, "no broker answers")
    rig.now_s = STALE_S - 1
    with pytest.raises(ClientError):
        rig.read()
    assert rig.may()
    rig.now_s = STALE_S
    with pytest.raises(RegistryError) as caught:
        rig.may()
    assert caught.value.status == 503
    rig.error = None
    rig.read()
    assert rig.may()


def test_resources_without_acls_are_as_the_setting_says() -> None:
    """If this fails, allow.everyone.if.no.acl.found is ignored, or opens topics that have ACLs."""
    rig = Rig(allow_if_no_acl=True)
    rig.read()
    access = Access("User:bob", "10.0.0.1", rig.acls)
    assert not access.sees("orders-value")
    assert access.sees("payments-value")
    assert access.may(Operation.ALTER, None)


def test_they_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, changes of ACLs are never read, or the task outlives the registry."""
    monkeypatch.setattr(cluster_acls, "REFRESH_S", 0.0)
    rig = Rig()

    async def scenario() -> None:
        await rig.acls.open()
        rig.error = ClientError(Failure.UNREACHABLE, "no broker answers")
        async with asyncio.timeout(30):
            while rig.asked < 3:
                await asyncio.sleep(0)
            rig.error, rig.bindings = None, []
            while rig.may():
                await asyncio.sleep(0)
        await rig.acls.close()

    asyncio.run(scenario())
    assert not rig.may()


@pytest.mark.parametrize(
    ("code", "part"),
    [
        (ErrorCode.SECURITY_DISABLED, "the brokers have no authorizer"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "needs the right Describe on the cluster"),
    ],
)
def test_a_registry_that_cannot_read_them_does_not_start(code: ErrorCode, part: str) -> None:
    """If this fails, the registry serves without rights, or says nothing about the reason."""
    rig = Rig()
    rig.error = ClientError(Failure.REFUSED, "", code=code)
    with pytest.raises(ClientError, match=part):
        asyncio.run(rig.acls.open())


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("web-orders-value", "web-orders"),
        ("orders-com.acme.Order", "orders"),
        ("com.acme.Order", "com.acme.Order"),
        (":.test:orders-value", "orders"),
        (":*:orders-value", "orders"),
        ("-value", "-value"),
        ("a/b-value", "a/b"),
        (":.test:", None),
        ("", None),
    ],
)
def test_the_topic_of_a_subject(subject: str, topic: str | None) -> None:
    """If this fails, the ACLs of another topic decide about a subject."""
    assert topic_of(subject) == topic


def test_the_registry_and_its_contexts_are_the_cluster() -> None:
    """If this fails, an ACL on the topic `kafka-cluster`, or on every topic, opens the registry's settings."""
    rig = Rig()
    rig.bindings = [allow(ALICE, Operation.ALL, "*")]
    rig.read()
    assert rig.may(Operation.ALTER)
    access = Access(ALICE, "10.0.0.1", rig.acls)
    assert not access.may(Operation.DESCRIBE, None)
    assert not access.may(Operation.DESCRIBE, ":.test:")
    assert rig.acls.mask(ALICE, "10.0.0.1", ResourceType.CLUSTER, "kafka-cluster") == 0
