"""`broker-cy acls` and `broker-cy users`, with this broker and with Apache Kafka."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_cy.commands.conftest import COMMAND, ROOT, TIMEOUT_S, Cli, Said
from tests.support import needs
from tests.support.kafka_peer import KafkaPeer
from tests.support.sasl_broker import SaslBroker
from tests.support.secured_broker import AUTHORIZED, SecuredBroker
from tests.support.terminal import in_terminal
from tests.support.wait import until

WITH_KAFKA = pytest.param("kafka", marks=[pytest.mark.full, needs.kafka])
TARGETS = ("ours", WITH_KAFKA)
SECRET = "a-very-secret-password"


@pytest.fixture(scope="module", params=TARGETS)
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with an authorizer that treats every client as a super user."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "ours":
        ours = SecuredBroker(directory)
        ours.start()
        try:
            yield ours.open_bootstrap
        finally:
            ours.close()
        return
    kafka = KafkaPeer(directory, AUTHORIZED)
    kafka.start()
    try:
        yield kafka.bootstrap
    finally:
        kafka.close()


@pytest.fixture
def cli(bare: Cli, where: str) -> Iterator[Cli]:
    """Runs a command with that broker; ACLs and users are deleted afterwards."""

    def call(*arguments: str | Path, code: int = 0, stdin: bytes | None = None) -> Said:
        return bare(*arguments, "--bootstrap", where, code=code, stdin=stdin)

    yield call
    call("acls", "delete", "--all", "--yes")
    for user in {each["user"] for each in call("users", "list", "--json").json}:
        call("users", "delete", user, "--yes")


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("THE_PASSWORD", SECRET)
    return ["--password-env", "THE_PASSWORD"]


def test_acls_are_created_listed_and_deleted(cli: Cli) -> None:
    """If this fails, an operator gives or takes other rights than those that the command shows."""
    assert cli("acls", "list", "--json").json == []
    said = cli("acls", "create", "allow", "alice", "read,describe", "topic:orders", "--host", "10.0.0.1", "--json")
    assert [(each["operation"], each["host"]) for each in said.json["created"]] == [
        ("READ", "10.0.0.1"),
        ("DESCRIBE", "10.0.0.1"),
    ]
    cli("acls", "create", "deny", "User:*", "delete", "topic:ord", "--prefixed")
    cli("acls", "create", "allow", "bob", "all", "topic:*")
    cli("acls", "create", "allow", "bob", "alter", "cluster", "--dry-run")
    listed = cli("acls", "list").rows()
    assert [[cell.strip() for cell in row] for row in listed] == [
        ["topic:*", "literal", "allow", "User:bob", "*", "all"],
        ["topic:ord", "prefixed", "deny", "User:*", "*", "delete"],
        ["topic:orders", "literal", "allow", "User:alice", "10.0.0.1", "read"],
        ["topic:orders", "literal", "allow", "User:alice", "10.0.0.1", "describe"],
    ]

    def names(*options: str) -> list[str]:
        return [each["name"] for each in cli("acls", "list", *options, "--json").json]

    assert names("--resource", "topic:orders") == ["orders", "orders"]
    assert names("--resource", "topic:orders", "--match") == ["*", "ord", "orders", "orders"]
    assert names("--principal", "bob") == ["*"]
    assert names("--pattern", "prefixed") == names("--permission", "deny") == names("--operation", "delete") == ["ord"]
    assert names("--host", "10.0.0.1") == ["orders", "orders"]
    would = cli("acls", "delete", "--principal", "alice", "--dry-run")
    assert "would delete 2 ACLs" in would.out
    assert "topic:orders" in would.err
    cli("acls", "delete", "--principal", "alice", code=4)
    assert len(names()) == 4
    assert len(cli("acls", "delete", "--principal", "alice", "--yes", "--json").json["deleted"]) == 2
    assert names() == ["*", "ord"]
    assert "deleted 0 ACLs" in cli("acls", "delete", "--principal", "alice", "--yes").out


def test_explain_names_the_rule_or_the_nearest(cli: Cli) -> None:
    """If this fails, an engineer changes the wrong ACL, or one too many."""
    cli("acls", "create", "allow", "alice", "read", "topic:ord", "--prefixed")
    cli("acls", "create", "deny", "User:*", "read", "topic:orders", "--host", "10.0.0.9")
    allowed = cli("acls", "explain", "alice", "read", "topic:orders", "--host", "10.0.0.1")
    assert allowed.out.splitlines() == [
        "ALLOWED: User:alice read topic:orders from 10.0.0.1",
        "because: allow User:alice read topic:ord*",
    ]
    denied = cli("acls", "explain", "alice", "read", "topic:orders", "--host", "10.0.0.9", "--json").json
    assert (denied["allowed"], denied["reason"], denied["rule"]["permission"]) == (False, "DENIED", "DENY")
    # READ includes DESCRIBE.
    assert cli("acls", "explain", "alice", "describe", "topic:orders", "--json").json["allowed"]
    refused = cli("acls", "explain", "alice", "write", "topic:order-2")
    assert refused.out.startswith("DENIED: User:alice write topic:order-2\n")
    assert "allow User:alice read topic:ord*  it is for READ" in refused.out
    assert "super.users" in refused.err
    other = cli("acls", "explain", "bob", "read", "topic:orders", "--json").json
    assert other["nearest"][0]["differs"] == ["it is for User:alice"]
    assert cli("acls", "explain", "bob", "read", "topic:x", "--super-user", "bob", "--json").json["allowed"]
    nobody = cli("acls", "explain", "bob", "read", "group:x", "--json").json
    assert (nobody["reason"], nobody["nearest"]) == ("NO_ACL_DENIED", [])
    assert cli("acls", "explain", "bob", "read", "group:x", "--allow-if-no-acl", "--json").json["allowed"]


# Arguments, and the texts that the error must contain: the value, and the allowed values.
WRONG = (
    (("acls", "create", "permit", "alice", "read", "topic:x"), ("'permit'", "allow")),
    (("acls", "create", "allow", "alice", "reed", "topic:x"), ("'reed'", "describe-configs")),
    (("acls", "create", "allow", "alice", "read,", "topic:x"), ("''", "describe-configs")),
    (("acls", "create", "allow", ":alice", "read", "topic:x"), ("':alice'", "User:alice")),
    (("acls", "create", "allow", "alice", "read", "topics:x"), ("'topics'", "transactional-id")),
    (("acls", "create", "allow", "alice", "read", "topic"), ("'topic'", "TYPE:NAME")),
    (("acls", "create", "allow", "alice", "read", "cluster:x"), ("'cluster:x'", "kafka-cluster")),
    (("acls", "create", "allow", "alice", "read", "cluster"), ("read", "idempotent-write")),
    (("acls", "create", "allow", "alice", "write", "group:x"), ("write", "describe")),
    (("acls", "create", "allow", "alice", "read", "topic:x", "--host", "10.0.0.0/8"), ("'10.0.0.0/8'", "IP address")),
    (("acls", "create", "allow", "alice", "all", "cluster", "--prefixed"), ("--prefixed", "one name")),
    (("acls", "create", "allow", "alice", "all", "topic:*", "--prefixed"), ("--prefixed", "all names")),
    (("acls", "delete", "--yes"), ("--all", "--principal")),
    (("acls", "delete", "--all", "--principal", "alice", "--yes"), ("--all",)),
    (("acls", "list", "--match"), ("--match", "--resource")),
    (("acls", "explain", "alice", "all", "topic:x"), ("all", "one after the other")),
    (("users", "create", "alice", "--iterations", "100"), ("100", "4096")),
    (("users", "create", "alice", "--iterations", "20000"), ("20000", "16384")),
    (("users", "create", "alice", "--mechanism", "PLAIN"), ("PLAIN", "SCRAM-SHA-256")),
    (("users", "create", "alice"), ("--password-file", "--password-env")),
    (("users", "create", "alice", "--password-env", "NO_SUCH_VARIABLE"), ("NO_SUCH_VARIABLE",)),
    (("users", "create", "alice", "--password-file", "/no/such/file"), ("/no/such/file", "No such file")),
    (("users", "create", "", "--password-env", "HOME"), ("must not be empty",)),
)


@pytest.mark.parametrize("where", ["ours"], indirect=True)
def test_wrong_input_is_refused_with_what_is_allowed(cli: Cli) -> None:
    """If this fails, the command sends a mistake to the cluster, or does not say what to write instead."""
    for arguments, expected in WRONG:
        said = cli(*arguments, code=2)
        for each in expected:
            assert each in said.err, f"{arguments}: {said.err}"
    assert cli("acls", "list", "--json").json == []
    assert cli("users", "list", "--json").json == []


def test_users_are_created_altered_and_deleted(cli: Cli, password: list[str]) -> None:
    """If this fails, a user cannot log in, or a deleted user still can."""
    created = cli("users", "create", "bob", *password)
    assert created.out == "set SCRAM-SHA-512 of user bob, with 8,192 iterations\n"
    again = cli("users", "create", "bob", *password, code=1)
    assert "users alter" in again.err
    cli("users", "create", "bob", "--mechanism", "scram-sha-256", "--iterations", "4096", *password)
    assert cli("users", "list", "--json").json == [
        {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    # All mechanisms that the user has.
    assert cli("users", "alter", "bob", "--iterations", "5000", *password, "--json").json == {
        "user": "bob",
        "set": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
        "iterations": 5000,
    }
    assert "users create" in cli("users", "alter", "eve", *password, code=1).err
    assert "does not exist" in cli("users", "list", "eve", code=1).err
    assert "SCRAM-SHA-256" in cli("users", "delete", "bob", "--mechanism", "SCRAM-SHA-256", "--dry-run").out
    cli("users", "delete", "bob", "--mechanism", "SCRAM-SHA-256", code=4)
    cli("users", "delete", "bob", "--mechanism", "SCRAM-SHA-256", "--yes")
    rows = [[cell.strip() for cell in row] for row in cli("users", "list", "bob").rows()]
    assert rows == [["bob", "SCRAM-SHA-512", "5,000"]]
    assert "only SCRAM-SHA-512" in cli("users", "delete", "bob", "--mechanism", "SCRAM-SHA-256", "--yes", code=1).err
    cli("users", "delete", "bob", "--yes")
    assert "has no credentials" in cli("users", "delete", "bob", "--yes", code=1).err


@pytest.mark.parametrize("where", ["ours"], indirect=True)
def test_a_password_comes_from_a_file_the_standard_input_or_a_prompt(
    cli: Cli, where: str, tmp_path: Path, bare: Cli, request: pytest.FixtureRequest
) -> None:
    """If this fails, a password has to be on the command line, where every process of the host can read it; or the user
    cannot log in with it.
    """
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\nsomething else\n")
    texts = [cli("users", "create", "a", "--password-file", file).out]
    texts.append(cli("users", "create", "b", "--password-file", "-", stdin=f"{SECRET}\n".encode()).out)
    line = f"{SECRET}\n".encode()
    shown = in_terminal(
        [*COMMAND, "users", "create", "c", "--bootstrap", where],
        typed_at={"Password of c:": line, "Repeat for confirmation:": line},
        cwd=ROOT,
    )
    assert shown.code == 0, shown.screen
    assert "Password of c" in shown.screen
    texts.append(shown.screen)
    assert not any(SECRET in text for text in texts)
    file.write_text("\n")
    assert "first line is empty" in cli("users", "create", "d", "--password-file", file, code=2).err
    assert {each["user"] for each in cli("users", "list", "--json").json} == {"a", "b", "c"}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path / "secured")
    broker.start()
    try:
        yield broker
    finally:
        broker.close()


def test_a_created_user_logs_in_and_does_what_acls_allow(
    bare: Cli, secured: SecuredBroker, password: list[str]
) -> None:
    """If this fails, the password that is set is not the one that was given, or explain and the broker disagree."""

    def admin(*arguments: str, code: int = 0) -> Said:
        return bare(*arguments, "--bootstrap", secured.bootstrap, "--command-config", secured.admin_file, code=code)

    admin("topics", "create", "orders")
    admin("topics", "create", "bills")
    admin("users", "create", "bob", *password)
    admin("acls", "create", "allow", "bob", "describe", "topic:orders")
    file = secured.client_file("bob", SECRET, "SCRAM-SHA-512")

    def bob(*arguments: str, code: int = 0) -> Said:
        return bare(*arguments, "--bootstrap", secured.bootstrap, "--command-config", file, code=code)

    assert [each["name"] for each in bob("topics", "list", "--json").json] == ["orders"]
    for topic, is_allowed in (("orders", True), ("bills", False)):
        explained = admin("acls", "explain", "bob", "describe", f"topic:{topic}", "--json").json
        assert explained["allowed"] is is_allowed
        bob("topics", "describe", topic, code=0 if is_allowed else 1)
    refused = bob("acls", "list", code=1)
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.err
    assert "CLUSTER_AUTHORIZATION_FAILED" in bob("users", "list", code=1).err
    assert "GROUP_AUTHORIZATION_FAILED" in bob("consume", "orders", "--group", "billing", code=1).err
    assert "group billing" in bob("consume", "orders", "--group", "billing", code=1).err
    admin("users", "alter", "bob", "--password-file", os.devnull, code=2)
    admin("users", "delete", "bob", "--yes")
    bob("topics", "list", code=1)


def test_without_an_authorizer(bare: Cli, tmp_path: Path) -> None:
    """If this fails, an operator believes that ACLs are in effect although no authorizer checks them."""
    broker = SaslBroker(tmp_path)
    broker.start()
    try:
        for arguments in (("list",), ("explain", "a", "read", "topic:x"), ("create", "allow", "a", "read", "topic:x")):
            said = bare("acls", *arguments, "--bootstrap", broker.open_bootstrap, code=1)
            assert "SECURITY_DISABLED" in said.err
        explained = bare("acls", "explain", "a", "read", "topic:x", "--no-acls", "--bootstrap", broker.open_bootstrap)
        assert explained.out.startswith("DENIED")
    finally:
        broker.close()


def test_a_change_is_tried_on_the_traffic_of_the_past(bare: Cli, secured: SecuredBroker, password: list[str]) -> None:
    """If this fails, an operator deletes an ACL that a client needs, or trusts a preview that missed this client."""

    def admin(*arguments: str, code: int = 0) -> Said:
        return bare(*arguments, "--bootstrap", secured.bootstrap, "--command-config", secured.admin_file, code=code)

    def bob(*arguments: str, code: int = 0, stdin: bytes | None = None) -> Said:
        file = secured.client_file("bob", SECRET, "SCRAM-SHA-512")
        return bare(*arguments, "--bootstrap", secured.bootstrap, "--command-config", file, code=code, stdin=stdin)

    admin("topics", "create", "orders")
    admin("users", "create", "bob", *password)
    write, read = "allow User:bob write topic:orders", "allow User:bob from 127.0.0.1 read topic:ord*"
    admin("acls", "create", "allow", "bob", "write,alter-configs", "topic:orders")
    admin("acls", "create", "allow", "bob", "read", "topic:ord", "--prefixed", "--host", "127.0.0.1")
    assert "says nothing" in admin("acls", "unused").err
    # The hot handlers: Produce and Fetch.
    bob("produce", "orders", "--no-create", stdin=b"one\n")
    assert bob("consume", "orders", "-e").out == "one\n"
    bob("groups", "describe", "billing", code=1)

    def noted() -> set[str]:
        said = bare("events", "--json", "--type", "accesses", "--bootstrap", secured.open_bootstrap).out.splitlines()
        found = [each for line in said for each in json.loads(line)["accesses"] if each["principal"] == "User:bob"]
        return {f"{each['resource']} {operation}" for each in found for operation in each["operations"]}

    expected = {"orders READ", "orders WRITE", "orders DESCRIBE", "billing DESCRIBE"}
    until(lambda: noted() >= expected, "the accesses", TIMEOUT_S)
    spare = admin("acls", "unused", "--json").json
    assert (spare["left_out"], [(each["operation"], each["instead"]) for each in spare["unused"]]) == (
        0,
        [("ALTER_CONFIGS", None)],
    )
    assert "allow User:bob alter-configs topic:orders  fits no access" in admin("acls", "unused").out

    refused = admin("acls", "preview", "--remove", write, "--json", code=1).json
    assert [(each["operation"], each["name"], each["reason"]) for each in refused["refused"]] == [
        ("WRITE", "orders", "NO_MATCH")
    ]
    # READ on the prefix still includes DESCRIBE.
    assert admin("acls", "preview", "--remove", "allow bob alter-configs topic:orders", "--json").json["refused"] == []
    shown = admin("acls", "preview", "--add", "deny User:* read topic:*", "--remove", read, code=1)
    assert "deny User:* read topic:*" in shown.out
    assert "1 would be denied" in shown.err
    allowed = admin("acls", "preview", "--add", "allow User:bob describe group:*", "--json").json["allowed"]
    assert [(each["resource_type"], each["name"]) for each in allowed] == [("GROUP", "billing")]
    assert "there is no ACL" in admin("acls", "preview", "--remove", "allow eve read topic:x", code=2).err
    assert "--add" in admin("acls", "preview", code=2).err
    assert "PERMISSION PRINCIPAL" in admin("acls", "preview", "--add", "bob may read", code=2).err
    assert "accesses" not in bare("events", "--bootstrap", secured.open_bootstrap, "-n", "1000").out


@pytest.mark.parametrize("where", [WITH_KAFKA], indirect=True)
def test_apache_kafka_notes_no_accesses(cli: Cli) -> None:
    """If this fails, "unused" reports every ACL of a Kafka cluster."""
    for command in (("unused",), ("preview", "--add", "allow a read topic:x")):
        said = cli("acls", *command, code=1)
        assert "Apache Kafka does not" in said.err
