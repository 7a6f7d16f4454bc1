"""Security events: changes of ACLs and users with their authors, and denied operations."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from broker_cy.controller.token_ops import SweepTokens
from broker_cy.core.clock import ManualClock
from broker_cy.events import denials
from broker_cy.events.denials import KEYS_MAX, Denials
from broker_cy.events.security_changes import security_changes
from broker_cy.handlers import load_handlers
from broker_cy.metadata import authors
from broker_cy.metadata.authors import Author
from broker_cy.metadata.image import ACL, ImageDelta
from broker_cy.metrics import events
from broker_cy.metrics.events import (
    AccessDenied,
    Acl,
    AclsCreated,
    AclsDeleted,
    Client,
    ClientQuotasChanged,
    DelegationTokensChanged,
    Event,
    LoginFailed,
    QuotaChange,
    ScramUsersChanged,
    Stamped,
    TokenChange,
)
from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_cy.security.authorizer import Authorizer, Explanation, Reason
from broker_cy.wire import codec, messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, with_broker

load_handlers()
SALT, SALTED = b"salt-of-the-user", b"salted-password-of-the-user-1234"


def creation(name: str, principal: str = "User:a") -> Any:
    return messages.CreateAclsRequest.AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=3,
        permission_type=3,
    )


def acl(name: str, principal: str = "User:a") -> Acl:
    return Acl("ALLOW", principal, "*", "READ", "TOPIC", "LITERAL", name)


def of_changes(broker: MetadataBroker) -> list[Event]:
    """The events of all changes so far but the first, which is the state at the start."""
    return [event for delta in broker.changes[1:] for event in security_changes(delta)]


def as_encoded(broker: MetadataBroker) -> dict[Any, bytes]:
    return {key: bytes(codec.encode(record, 0)) for key, record in broker.image.kept.items()}


def read_again(path: Path, wanted: Any) -> None:
    """A node that reads the log has the same image, and snapshots do not have authors."""

    async def work(broker: MetadataBroker) -> None:
        assert as_encoded(broker) == wanted
        assert not any(record._unknown_tags for record in broker.image.kept.values())

    with_broker(path, work)


def test_who_changed_which_acls_and_users(tmp_path: Path) -> None:
    """If this fails, an audit cannot show who granted or revoked access."""
    kept: dict[Any, bytes] = {}

    async def work(broker: MetadataBroker) -> None:
        wanted = messages.CreateAclsRequest(creations=[creation("x"), creation("y")])
        await broker.call(wanted, 3, principal="User:admin", host="192.0.2.7")
        # An ACL that exists already is not a change.
        await broker.call(wanted, 3, principal="User:other")
        chosen = messages.DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=2,
            resource_name_filter="x",
            pattern_type_filter=3,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        await broker.call(messages.DeleteAclsRequest(filters=[chosen]), 3, principal="User:root", host="192.0.2.8")
        alter = messages.AlterUserScramCredentialsRequest
        for iterations in (4_096, 8_192):
            up = alter.ScramCredentialUpsertion(
                name="bob", mechanism=1, iterations=iterations, salt=SALT, salted_password=SALTED
            )
            await broker.call(alter(upsertions=[up]), 0, principal="User:admin", host="192.0.2.7")
        await broker.call(alter(deletions=[alter.ScramCredentialDeletion(name="bob", mechanism=1)]), 0)
        by = Client("test", "192.0.2.7", "User:admin")
        found = of_changes(broker)
        assert found[:2] == [
            AclsCreated([acl("x"), acl("y")], 2, by),
            AclsDeleted([acl("x")], 1, Client("test", "192.0.2.8", "User:root")),
        ]
        assert [
            (each.credentials[0].change, each.credentials[0].iterations, each.by.principal)
            for each in found[2:]
            if isinstance(each, ScramUsersChanged)
        ] == [("created", 4_096, "User:admin"), ("altered", 8_192, "User:admin"), ("deleted", 0, "User:ANONYMOUS")]
        assert [each.key for each in found] == ["User:a", "User:a", "bob", "bob", "bob"]
        written = b"".join(events.encode(Stamped(1, 1, each))[1] for each in found)
        for secret in (SALT, SALTED):
            assert secret not in written
            assert secret.hex().encode() not in written
        assert not {"salt", "stored_key", "server_key"} & set(json.dumps([asdict(each) for each in found]).split('"'))
        assert not any(each._unknown_tags for each in broker.image.kept.values())
        kept.update(as_encoded(broker))
        assert not broker.image.authors

    with_broker(tmp_path, work, authorizer=Authorizer(["User:admin", "User:root", "User:other", "User:ANONYMOUS"]))
    read_again(tmp_path, kept)


def test_who_changed_which_quotas_and_tokens(tmp_path: Path) -> None:
    """If this fails, an audit cannot show who removed a quota, or who created a token and for which user."""
    kept: dict[Any, bytes] = {}
    key = "producer_byte_rate"

    async def work(broker: MetadataBroker) -> None:
        alter = messages.AlterClientQuotasRequest

        def quota(value: float | None) -> Any:
            names = (("client-id", None), ("user", "bob"))
            entity = [alter.EntityData(entity_type=kind, entity_name=name) for kind, name in names]
            op = alter.OpData(key=key, value=value or 0.0, remove=value is None)
            return alter(entries=[alter.EntryData(entity=entity, ops=[op])])

        for value in (1_000_000.0, 1_000_000.0, math.nan, None):
            await broker.call(quota(value), 1, principal="User:admin", host="192.0.2.7")
        made = await broker.call(messages.CreateDelegationTokenRequest(max_lifetime_ms=-1), 3, "SASL", "User:bob")
        assert made.error_code == 0
        for period_ms in (10, -1):
            request = messages.ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=period_ms)
            answer = await broker.call(request, 2, "SASL", "User:bob", "192.0.2.8")
            assert answer.error_code == 0
        await broker.call(messages.CreateDelegationTokenRequest(max_lifetime_ms=1), 3, "SASL", "User:bob")
        broker.clock.advance_ms(10)
        assert await broker.controller.submit(SweepTokens()) is False
        found = of_changes(broker)
        entity: dict[str, str | None] = {"user": "bob", "client-id": None}
        by = Client("test", "192.0.2.7", "User:admin")
        assert found[:3] == [
            ClientQuotasChanged([QuotaChange(entity, key, before, after)], 1, by)
            for before, after in ((None, "1000000"), ("1000000", "nan"), ("nan", None))
        ]
        changes = [
            (each.tokens[0].owner, each.tokens[0].requester, each.tokens[0].change, each.by.host, each.by.principal)
            for each in found[3:]
            if isinstance(each, DelegationTokensChanged)
        ]
        bob = "User:bob"
        assert changes == [
            (bob, bob, "created", "127.0.0.1", bob),
            (bob, bob, "shortened", "192.0.2.8", bob),
            (bob, bob, "removed", "192.0.2.8", bob),
            (bob, bob, "created", "127.0.0.1", bob),
            (bob, bob, "expired", "", "broker"),
        ]
        assert [each.key for each in found] == ["user bob, client-id (default)"] * 3 + [bob] * 5
        for each in found:
            assert events.decode(events.encode(Stamped(1, 1, each))[1]) == Stamped(1, 1, each)
        written = b"".join(events.encode(Stamped(1, 1, each))[1] for each in found)
        assert made.token_id.encode() in written
        for secret in (made.hmac.hex().encode(), base64.b64encode(made.hmac)):
            assert secret not in written
        await broker.call(quota(5.5), 1, principal="User:admin")
        assert not any(record._unknown_tags for record in broker.image.kept.values())
        kept.update(as_encoded(broker))
        assert not broker.image.authors

    settings = {
        "delegation.token.secret.key": "the key of the tokens",
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
        "required;",
    }
    with_broker(tmp_path, work, settings=settings)
    read_again(tmp_path, kept)


def test_changes_of_an_unknown_author() -> None:
    """If this fails, what a controller of Apache Kafka changed is missing in the events, or has a wrong author."""
    record = messages.AccessControlEntryRecord(
        resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*", operation=3, permission_type=3
    )
    wrong = (b"", b"[", b"[1,2,3]", b'["a"]', b"{}", b"\xff")
    for data in wrong:
        delta = ImageDelta([], [], [], [], acls=[(None, record)], authors={(ACL, record.id): data})
        assert list(security_changes(delta)) == [AclsCreated([acl("t")], 1, Client("", "", ""))]
    token = messages.DelegationTokenRecord(owner="User:a", requester="User:b", token_id="x", max_timestamp=7)
    (event,) = security_changes(ImageDelta([], [], [], [], tokens=[(token, None), (None, None), (token, token)]))
    change = TokenChange("x", "User:a", "User:b", "removed", 0, 7)
    assert event == DelegationTokensChanged([change], 1, Client("", "", ""))
    long = Author("c" * 40_000, "h", "User:" + "p" * 40_000)
    ((tag, data),) = authors.tag_of(long)
    assert tag == authors.TAG
    assert len(data) < 1_000
    assert authors.read(data).principal == long.principal[: authors.CHARACTERS_MAX]


def test_a_change_of_many_acls_is_one_event() -> None:
    """If this fails, one command writes ten thousand events, or one that is too large to be written."""
    record = messages.AccessControlEntryRecord(resource_type=2, pattern_type=3, operation=3, permission_type=3)
    (event,) = security_changes(ImageDelta([], [], [], [], [(record, None)] * 10_000))
    assert isinstance(event, AclsDeleted)
    assert (event.acls_total, len(event.acls)) == (10_000, events.CHANGES_REPORTED_MAX)


class Gathered:
    """Denials with the events that were written, and the time that the test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.new_event_loop()
        self.due: list[tuple[float, Any]] = []
        monkeypatch.setattr(self.loop, "call_later", self._later)
        self.written: list[Event] = []
        self.denials = Denials(ManualClock(), self.loop, self.written.append)

    def _later(self, delay_s: float, call: Any) -> asyncio.TimerHandle:
        self.due.append((delay_s, call))
        return asyncio.TimerHandle(0, call, (), self.loop)

    def deny(self, name: str = "t", explanation: Explanation | None = None) -> None:
        self.denials.denied("User:eve", "192.0.2.1", "FETCH", "READ", "TOPIC", name, lambda: explanation)

    def fail(self, user: str = "eve") -> None:
        self.denials.login_failed("SASL", "192.0.2.1", "PLAIN", user, "wrong password", again=False)

    def pass_time(self) -> float:
        delay_s, call = self.due.pop()
        call()
        return delay_s

    def take(self) -> list[Any]:
        found = self.written[:]
        self.written.clear()
        return found


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Gathered(monkeypatch)
    yield made
    made.loop.close()


def test_equal_denials_are_one_event(gathered: Gathered) -> None:
    """If this fails, a client that retries again and again fills the topic, or an engineer waits for the event of a
    denial.
    """
    for _ in range(1_000):
        gathered.deny()
        gathered.fail()
    assert gathered.pass_time() == denials.FIRST_S
    login, denied = gathered.take()
    assert isinstance(login, LoginFailed)
    assert isinstance(denied, AccessDenied)
    assert (login.count, denied.count, denied.reason, login.left_out) == (1_000, 1_000, "not_loaded", 0)
    gathered.deny()
    assert gathered.pass_time() == denials.PERIOD_S
    assert [each.count for each in gathered.take()] == [1]
    # After a quiet period the next one is written soon again.
    assert gathered.pass_time() == denials.PERIOD_S
    assert not gathered.due
    gathered.deny()
    assert gathered.pass_time() == denials.FIRST_S


def test_different_denials_are_bounded(gathered: Gathered) -> None:
    """If this fails, a client that asks for random names, or an attacker with random users, fills memory and disk."""
    for number in range(10_000):
        gathered.deny(f"t-{number}" + "x" * 30_000)
        gathered.fail(f"user-{number}")
    gathered.pass_time()
    found = gathered.take()
    assert len(found) == 2 * KEYS_MAX
    assert [each.left_out for each in found if each.left_out] == [10_000 - KEYS_MAX] * 2
    assert all(len(each.resource) < 300 for each in found if isinstance(each, AccessDenied))
    assert len(events.encode(Stamped(1, 1, found[-1]))[1]) < 2_000


def test_the_rule_that_decided_is_in_the_event(gathered: Gathered) -> None:
    """If this fails, an engineer knows that something was refused, and has to guess why."""
    binding = Binding(
        ResourceType.TOPIC, "t", PatternType.PREFIXED, "User:*", "*", Operation.READ, Permission.DENY
    )  # fmt: skip
    gathered.deny("t-1", Explanation(False, Reason.DENIED, binding))
    allowing = binding._replace(permission=Permission.ALLOW)
    gathered.deny("t-2", Explanation(False, Reason.NO_MATCH, None, (binding, *(allowing,) * 10)))
    gathered.denials.stop()
    one, two = gathered.take()
    rule = Acl("DENY", "User:*", "*", "READ", "TOPIC", "PREFIXED", "t")
    assert (one.reason, one.rule, one.near) == ("denied", rule, [])
    near = replace(rule, permission="ALLOW")
    assert (two.reason, two.rule, two.near) == ("no_match", None, [near] * denials.NEAR_MAX)
    for each in (one, two):
        assert events.decode(events.encode(Stamped(5, 1, each))[1]) == Stamped(5, 1, each)
    gathered.deny()
    assert not gathered.due or gathered.denials._timer is None
