"""Delegation tokens (KIP-48, KIP-373): the same responses as Apache Kafka 4.3.1, and logins with tokens. The file is
long because one script of requests is played to both brokers.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.launch.nodes import broker_command, free_ports
from broker_cy.core import tokens
from broker_cy.core.errors import ErrorCode
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.security.acls import Operation, PatternType, Permission, ResourceType
from broker_cy.security.sasl.exchange import Login
from broker_cy.security.sasl.scram import SaltedPasswords, ScramClient, nonce_of
from broker_cy.wire import messages as m
from tests.broker_cy.security.exchanges import mechanism as mechanism_of
from tests.compat.differential.client import CLOSED, Client
from tests.compat.test_sasl import tool
from tests.support import kafka_tools, needs
from tests.support.broker import target_is_kafka
from tests.support.kafka_peer import KafkaPeer
from tests.support.sasl_broker import (
    ADMIN_PASSWORD,
    ALICE,
    PASSWORD,
    SCRAM_MODULE,
    SaslBroker,
    client_jaas,
    listener_settings,
    quoted,
    write_properties,
)
from tests.support.wait import until

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="starts both brokers itself")
SECRET_KEY = "the key of the tokens"
LIFETIME_MS, PERIOD_MS = 100_000_000, 50_000_000
TIMEOUT_S = 60.0
ROUND_MS = 60_000
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": SECRET_KEY,
    "delegation.token.max.lifetime.ms": str(LIFETIME_MS),
    "delegation.token.expiry.time.ms": str(PERIOD_MS),
}


class Ours(SaslBroker):
    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory, {**SETTINGS, **(settings or {})})


class Theirs(KafkaPeer):
    """`port` is the port of the SASL listener."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory, {**SETTINGS, **(settings or {})})
        self.open_port = 0

    def choose_ports(self) -> None:
        self.port, self.controller_port, self.open_port = free_ports(3)

    def _write_properties(self) -> None:
        super()._write_properties()
        lines = dict(line.partition("=")[::2] for line in self._properties.read_text().splitlines())
        lines |= {
            "listeners": f"SASL_PLAINTEXT://{self.host}:{self.port},OPEN://{self.host}:{self.open_port},"
            f"CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"SASL_PLAINTEXT://{self.host}:{self.port},OPEN://{self.host}:{self.open_port}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,OPEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            **listener_settings("SASL_PLAINTEXT"),
        }
        write_properties(self._properties, lines)

    def ready(self, child: Any) -> bool:
        port, self.port = self.port, self.open_port
        try:
            return super().ready(child)
        finally:
            self.port = port


def logged_in(broker: Any, user: str, password: str) -> Client:
    """A client of PLAIN."""
    client = Client((broker.host, broker.port))
    assert client.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    found = client.ask(m.SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)
    assert found.error_code == 0, found
    return client


def with_token(broker: Any, token_id: str, token_hmac: bytes, name: str = "SCRAM-SHA-256") -> tuple[Client, Any]:
    """A client with a token, and the answer to its last message."""
    client = Client((broker.host, broker.port))
    login = Login(name, token_id, tokens.password_of(token_hmac), is_token=True)
    exchange = ScramClient(mechanism_of(name), SaltedPasswords(login), nonce_of(MACHINE_RANDOMNESS.take_bytes(18)))
    assert client.ask(m.SaslHandshakeRequest(mechanism=name), 1).error_code == 0
    answer = client.ask(m.SaslAuthenticateRequest(auth_bytes=exchange.first()), 2)
    if answer.error_code == 0:
        final = exchange.step(answer.auth_bytes)
        assert final is not None
        answer = client.ask(m.SaslAuthenticateRequest(auth_bytes=final), 2)
    return client, answer


def user(name: str) -> Any:
    return m.CreateDelegationTokenRequest.CreatableRenewers(principal_type="User", principal_name=name)


def create(owner: str | None = None, *renewers: str, lifetime_ms: int = -1, kind: str = "User") -> Any:
    found = m.CreateDelegationTokenRequest(renewers=[user(each) for each in renewers], max_lifetime_ms=lifetime_ms)
    if owner:
        found.owner_principal_type, found.owner_principal_name = kind, owner
    return found


def described(*owners: str) -> Any:
    kind = m.DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    return m.DescribeDelegationTokenRequest(
        owners=[kind(principal_type="User", principal_name=each) for each in owners] if owners else None
    )


class Script:
    """The same requests to one broker; `seen` are the responses without values that differ from run to run."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.seen: list[Any] = []
        self.began_ms = int(time.time() * 1000)
        self._names: dict[str, str] = {}

    def ask(self, client: Client, request: Any, version: int) -> Any:
        answer = client.ask(request, version)
        self.seen.append((type(request).__name__, version, self._plain(answer)))
        return answer

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list):
            return sorted((self._plain(each) for each in value), key=repr)
        if isinstance(value, int) and value > 10**12:
            return f"{round((value - self.began_ms) / ROUND_MS)} minutes from now"
        if isinstance(value, bytes):
            return f"{len(value)} bytes"
        if hasattr(type(value), "__slots__") and not isinstance(value, (str, bytes, int)):
            found = {
                name: self._plain(getattr(value, name)) for name in type(value).__slots__ if name != "_unknown_tags"
            }
            if "token_id" in found:
                found["token_id"] = len(found["token_id"])
            return found
        return value


def acl(operation: Operation, resource: ResourceType, name: str, principal: str) -> Any:
    return m.CreateAclsRequest.AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )


def play(broker: Any) -> list[Any]:
    script = Script(broker)
    admin, alice = logged_in(broker, "admin", ADMIN_PASSWORD), logged_in(broker, ALICE, PASSWORD)
    anonymous = Client((broker.host, broker.open_port))
    for version in (1, 2, 3):
        mine = script.ask(alice, create(None, "admin", "bob"), version)
        until(lambda count=version: len(alice.ask(described(), 3).tokens) == count, "the token")  # type: ignore[misc]
        script.ask(alice, described(), version)
        script.ask(admin, described(ALICE), version)
        script.ask(alice, described("bob"), version)
        script.ask(alice, described("carol"), version)
        script.ask(alice, m.DescribeDelegationTokenRequest(owners=[]), version)
        script.ask(anonymous, create(), version)
        script.ask(anonymous, described(), version)
    # Tokens for other users need an ACL.
    script.ask(alice, create("carol"), 3)
    script.ask(alice, create(ALICE), 3)
    script.ask(admin, create("carol", ALICE), 3)
    script.ask(alice, create(None, lifetime_ms=1_000_000), 3)
    script.ask(alice, create(None, lifetime_ms=10**15), 3)
    bad = create()
    bad.renewers = [m.CreateDelegationTokenRequest.CreatableRenewers(principal_type="Group", principal_name="x")]
    script.ask(alice, bad, 3)
    acls = [
        acl(Operation.CREATE_TOKENS, ResourceType.USER, "User:dora", f"User:{ALICE}"),
        acl(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:emil", f"User:{ALICE}"),
    ]
    assert not any(each.error_code for each in admin.ask(m.CreateAclsRequest(creations=acls), 3).results)
    until(lambda: alice.ask(create("dora"), 3).error_code == 0, "the right")
    script.ask(alice, create("dora"), 3)
    theirs = script.ask(admin, create("emil"), 3)
    others = script.ask(admin, create("fred"), 3)
    until(lambda: any(t.principal_name == "fred" for t in admin.ask(described(), 3).tokens), "the token")
    script.ask(alice, described("emil", "fred", "dora"), 3)
    for version in (1, 2):
        for client, token in ((alice, mine), (admin, mine), (alice, theirs), (admin, others)):
            for period_ms in (-1, 0, 1_000_000, 10**15):
                script.ask(client, m.RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms), version)
        for hmac in (b"", b"x" * 64):
            script.ask(alice, m.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=1), version)
            script.ask(alice, m.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=1), version)
        for client, token in ((alice, mine), (alice, theirs)):
            for period_ms in (1_000_000, 10**15):
                request = m.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
                script.ask(client, request, version)
        script.ask(anonymous, m.RenewDelegationTokenRequest(hmac=mine.hmac, renew_period_ms=-1), version)
        script.ask(anonymous, m.ExpireDelegationTokenRequest(hmac=mine.hmac, expiry_time_period_ms=-1), version)
    # A session with a token belongs to the token's owner, and may not request tokens.
    for name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        client, answer = with_token(broker, mine.token_id, mine.hmac, name)
        assert (answer.error_code, 0 < answer.session_lifetime_ms <= LIFETIME_MS) == (0, True), answer
        script.ask(client, create(), 3)
        script.ask(client, described(), 3)
        script.ask(client, m.RenewDelegationTokenRequest(hmac=mine.hmac, renew_period_ms=-1), 2)
        script.ask(client, m.ExpireDelegationTokenRequest(hmac=mine.hmac, expiry_time_period_ms=-1), 2)
    _, answer = with_token(broker, mine.token_id, b"wrong")
    script.seen.append((answer.error_code, answer.error_message))
    script.ask(alice, m.ExpireDelegationTokenRequest(hmac=mine.hmac, expiry_time_period_ms=-1), 2)
    until(lambda: mine.token_id not in [t.token_id for t in alice.ask(described(), 3).tokens], "the end of a token")
    script.ask(alice, m.ExpireDelegationTokenRequest(hmac=mine.hmac, expiry_time_period_ms=-1), 2)
    script.ask(alice, m.RenewDelegationTokenRequest(hmac=mine.hmac, renew_period_ms=-1), 2)
    _, answer = with_token(broker, mine.token_id, mine.hmac)
    script.seen.append((answer.error_code, answer.error_message))
    return script.seen


def play_disabled(broker: Any) -> list[Any]:
    script = Script(broker)
    alice = logged_in(broker, ALICE, PASSWORD)
    script.ask(alice, create(None, "bob"), 3)
    script.ask(alice, m.RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1), 2)
    script.ask(alice, m.ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), 2)
    script.ask(alice, described(), 3)
    _, answer = with_token(broker, "id", b"hmac")
    script.seen.append((answer.error_code, answer.error_message))
    return script.seen


@pytest.mark.full
@needs.kafka
@pytest.mark.parametrize(("what", "settings"), [(play, {}), (play_disabled, {"delegation.token.secret.key": ""})])
def test_the_same_answers_as_kafka(tmp_path: Path, what: Callable[[Any], list[Any]], settings: dict[str, str]) -> None:
    """If this fails, tools and clients that use delegation tokens with Kafka do not work here, or have more access."""
    found = []
    for number, kind in enumerate((Ours, Theirs)):
        broker = kind(tmp_path / str(number), settings)
        try:
            broker.start()
            found.append(what(broker))
        finally:
            broker.close()
    ours, theirs = found
    for one, other in zip(ours, theirs, strict=True):
        assert one == other
    assert len(ours) > 4


# --- ours alone


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    found = Ours(tmp_path_factory.mktemp("tokens"), {"delegation.token.expiry.check.interval.ms": "200"})
    try:
        yield found.start()
    finally:
        found.close()


METADATA = m.MetadataRequest(topics=[])


def is_open(client: Client) -> bool:
    return bool(client.ask(METADATA, 12) != CLOSED)


def test_a_session_ends_with_its_token(broker: Ours) -> None:
    """If this fails, a session with a stolen token continues after the owner has expired the token."""
    alice = logged_in(broker, ALICE, PASSWORD)
    # The token is removed, or gets an earlier expiry time.
    for period_ms in (-1, 1):
        token = alice.ask(create(), 3)
        client, answer = with_token(broker, token.token_id, token.hmac)
        assert answer.error_code == 0
        assert is_open(client)
        ended = alice.ask(m.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms), 2)
        assert ended.error_code == 0
        until(lambda client=client: not is_open(client), "the end of the session")  # type: ignore[misc]
        # The owner's own session continues.
        assert is_open(alice)


def test_expired_tokens_are_swept(broker: Ours) -> None:
    """If this fails, tokens are never removed, or stay valid after they expire."""
    alice = logged_in(broker, ALICE, PASSWORD)
    token = alice.ask(create(None, lifetime_ms=1_500), 3)
    client, answer = with_token(broker, token.token_id, token.hmac)
    assert (answer.error_code, 0 < answer.session_lifetime_ms <= 1_500) == (0, True)
    until(lambda: not is_open(client), "the end of the session")
    _, answer = with_token(broker, token.token_id, token.hmac)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    gone = lambda: token.token_id not in [each.token_id for each in alice.ask(described(), 3).tokens]  # noqa: E731
    until(gone, "the sweep")


def test_only_users_own_tokens(broker: Ours) -> None:
    """If this fails, an ACL to create tokens for a group also gives access as any user of the same name (as in
    Kafka).
    """
    admin = logged_in(broker, "admin", ADMIN_PASSWORD)
    answer = admin.ask(create("alice", kind="Group"), 3)
    assert (answer.error_code, answer.hmac) == (ErrorCode.INVALID_PRINCIPAL_TYPE, b"")


def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    """If this fails, jobs that run with a token lose their access when a broker is restarted."""
    with_tokens = Ours(tmp_path)
    try:
        with_tokens.start()
        token = logged_in(with_tokens, ALICE, PASSWORD).ask(create(), 3)
        with_tokens.kill()
        with_tokens.restart()
        client, answer = with_token(with_tokens, token.token_id, token.hmac)
        assert answer.error_code == 0
        assert is_open(client)
        output = with_tokens.stdout() + with_tokens.stderr()
        for secret in (SECRET_KEY, tokens.password_of(token.hmac)):
            assert secret not in output
    finally:
        with_tokens.close()


def test_kafkas_tool_and_java_clients(broker: Ours, tmp_path: Path) -> None:
    """If this fails, Kafka's tool for tokens, or a Java client with one, does not work."""
    needs.require(needs.kafka)
    good: dict[str, Any] = {"user": ALICE, "password": PASSWORD, "mechanism": "PLAIN"}
    command = "org.apache.kafka.tools.DelegationTokenCommand"
    made = tool(broker, tmp_path, command, "--create", "--max-life-time-period", "-1", **good)
    assert made.returncode == 0, made.stderr
    token_id = made.stdout.partition("tokenId : ")[2].split()[0]
    token_hmac = made.stdout.rpartition(token_id)[2].split()[0]
    for arguments, said in (
        (("--describe", "--owner-principal", f"User:{ALICE}"), token_id),
        (("--renew", "--hmac", token_hmac, "--renew-time-period", "-1"), "Completed renew operation"),
    ):
        done = tool(broker, tmp_path, command, *arguments, **good)
        assert said in done.stdout, done.stderr
    allow = [acl(Operation.ALL, ResourceType.TOPIC, "*", f"User:{ALICE}")]
    logged_in(broker, "admin", ADMIN_PASSWORD).ask(m.CreateAclsRequest(creations=allow), 3)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        properties = tmp_path / f"{mechanism}-token.properties"
        jaas = f'{SCRAM_MODULE} required username={quoted(token_id)} password={quoted(token_hmac)} tokenauth="true";'
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
        write_properties(properties, settings)
        listed = kafka_tools.run_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", broker.bootstrap, "--command-config", properties),
            *("--create", "--topic", f"of-{mechanism.lower()}", "--partitions", "1", "--replication-factor", "1"),
        )
        assert b"Created topic" in listed.stdout
        refused = kafka_tools.run_tool(
            command,
            *("--bootstrap-server", broker.bootstrap, "--command-config", properties, "--describe"),
            check=False,
        )
        assert b"DelegationToken" in refused.stdout + refused.stderr
        assert refused.returncode != 0
    ended = tool(broker, tmp_path, command, "--expire", "--hmac", token_hmac, "--expiry-time-period", "-1", **good)
    assert "Completed expire operation" in ended.stdout, ended.stderr


def own(broker: Ours, properties: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*broker_command(), "tokens", *arguments, "--bootstrap", broker.bootstrap, "--command-config", str(properties)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def test_our_command(broker: Ours, tmp_path: Path) -> None:
    """If this fails, operators need Kafka's tool for tokens, or find secrets in their terminals and logs."""
    properties = tmp_path / "alice.properties"
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    write_properties(properties, plain | {"sasl.jaas.config": client_jaas("PLAIN", ALICE, PASSWORD)})
    file = tmp_path / "hmac"
    done = own(
        broker, properties, "create", "--renewer", "bob", "--max-lifetime", "2h", "--hmac-file", str(file), "--json"
    )
    (made,) = json.loads(done.stdout)
    assert (made["owner"], made["requester"], made["renewers"]) == (f"User:{ALICE}", f"User:{ALICE}", ["User:bob"])
    assert made["max_ms"] - made["issued_ms"] == 7_200_000
    secret = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600
    token_id = made["token_id"]
    for shown in (done, own(broker, properties, "list"), own(broker, properties, "renew", token_id, "--for", "1h")):
        assert secret not in shown.stdout + shown.stderr
    assert token_id in own(broker, properties, "list").stdout
    assert secret in own(broker, properties, "list", "--show-hmac").stdout
    listed = json.loads(own(broker, properties, "list", "--show-hmac", "--json", "--owner", ALICE).stdout)
    assert secret in [each["hmac"] for each in listed]
    # An existing file is not overwritten, and no token is created.
    own(broker, properties, "create", "--hmac-file", str(file), code=2)
    # broker-cy's own clients log in with the token, and cannot create more tokens.
    with_it = tmp_path / "token.properties"
    jaas = f'{SCRAM_MODULE} required username={quoted(token_id)} password={quoted(secret)} tokenauth="true";'
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}
    write_properties(with_it, settings)
    refused = own(broker, with_it, "create", code=1)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.stderr
    # A token for another user needs an ACL.
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in own(broker, properties, "create", "--owner", "x", code=1).stderr
    own(broker, properties, "expire", token_id, "--dry-run")
    own(broker, properties, "expire", token_id, code=4)
    own(broker, properties, "expire", token_id, "--yes")
    assert "DELEGATION_TOKEN_NOT_FOUND" in own(broker, properties, "renew", token_id, code=1).stderr
    command = [*broker_command(), "events", "--json", "--type", "delegation_tokens_changed"]

    def changes() -> list[str]:
        said = subprocess.run(
            [*command, "--bootstrap", broker.open_bootstrap], capture_output=True, text=True, check=True
        )
        assert secret not in said.stdout
        found = [json.loads(line) for line in said.stdout.splitlines()]
        return [one["change"] for each in found for one in each["tokens"] if one["token_id"] == token_id]

    # The renewal period is shorter than the token's initial one.
    until(lambda: changes() == ["created", "shortened", "removed"], "the events", TIMEOUT_S)
