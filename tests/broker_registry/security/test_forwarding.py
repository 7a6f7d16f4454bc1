"""Changes that an instance forwards over https to the one that the group elected. Neither has a listener with http."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from broker_cy.security.acls import Operation, ResourceType
from broker_registry.errors import Code
from tests.broker_registry.elections import ELECTION, ELECTION_S, registered
from tests.broker_registry.security.running import (
    ACLS,
    INT,
    WAIT_S,
    allow,
    basic,
    change,
    https,
    shown_certificate,
    to_cluster,
)
from tests.support.certificates import Authority, Holder
from tests.support.registry import Registry, RegistryProcess, Reply
from tests.support.sasl_broker import write_properties
from tests.support.tls_broker import TlsBroker
from tests.support.wait import until

NAMES = ("one", "two")
SUPER_USERS = {"confluent.topic.acl.super.users": "User:registry"}


@contextmanager
def elected(directory: Path, settings: Sequence[Mapping[str, str]]) -> Iterator[list[RegistryProcess]]:
    """Run an instance with each of the settings."""
    found: list[RegistryProcess] = []
    try:
        for name, own in zip(NAMES, settings, strict=True):
            file = directory / name / "schema-registry.properties"
            common = {**ELECTION, "inter.instance.protocol": "https", "kafkastore.topic.replication.factor": "1"}
            write_properties(file, {**common, **ACLS, **SUPER_USERS, **own})
            found.append(RegistryProcess("", file.parent, [str(file)], name, listen=""))
        for each in found:
            each.wait()
        yield found
        for each in found:
            each.stop()
    finally:
        for each in found:
            each.kill()


def of_https(directory: Path, authority: Authority, holder: Holder) -> list[dict[str, str]]:
    """The settings of the listener of each instance, in directories of their own."""
    for name in NAMES:
        (directory / name).mkdir()
    return [https(directory / name, authority, holder) for name in NAMES]


def roles(
    found: Sequence[RegistryProcess], headers: Mapping[str, str] | None = None
) -> tuple[RegistryProcess, RegistryProcess]:
    """Wait for the election among both; return the leader, which has the least URL, and the other one. A change that
    was forwarded already is carried out by the leader only.
    """
    leader, other = sorted(found, key=lambda each: each.url)
    numbers = count()

    def code(registry: Registry) -> int:
        """Try a change that no instance knows yet."""
        passed, body = {**(headers or {}), "X-Forward": "true"}, {"compatibility": "FULL"}
        reply = registry.call("PUT", f"/config/probe-{next(numbers)}", body, passed)
        return reply.status if reply.status == 200 else int(reply.body["error_code"])

    until(lambda: (code(leader), code(other)) == (200, Code.UNKNOWN_LEADER), "the election", ELECTION_S)
    return leader, other


def wait_until_shown(registry: Registry, holder: Holder) -> None:
    def shows() -> bool:
        return shown_certificate(registry.url, registry.context) == holder.der

    until(shows, "the renewed certificate", WAIT_S, tolerate=(ssl.SSLError,))


@pytest.fixture
def of_topic(broker: TlsBroker, topic: str) -> dict[str, str]:
    """Settings of a topic and a group of the test, with the permissions that docs/registry.md lists for them."""
    change(
        broker,
        *(
            allow(ResourceType.TOPIC, topic, "User:registry", each)
            for each in (Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE_CONFIGS)
        ),
        allow(ResourceType.GROUP, topic, "User:registry", Operation.READ),
    )
    return {"kafkastore.topic": topic, "schema.registry.group.id": topic}


def test_logins_and_renewed_certificates(broker: TlsBroker, of_topic: dict[str, str], tmp_path: Path) -> None:
    """If this fails, instances with https only cannot forward changes, a login ends at the first instance, or changes
    fail from the renewal of the certificates until a restart.
    """
    authority = broker.authority
    listeners = of_https(tmp_path, authority, authority.issue("registry"))
    settings = [{**each, **to_cluster(tmp_path, broker), **of_topic} for each in listeners]
    with elected(tmp_path, settings) as found:
        trusted = ssl.create_default_context(cadata=authority.pem)
        for each in found:
            each.context, each.headers = trusted, basic("alice")
        leader, other = roles(found, basic("registry"))
        assert registered(other, "orders-value", INT) == registered(leader, "orders-value", INT)
        # An error of the leader, which the other instance does not find by itself.
        reply = other.register("orders-value", '"string"')
        assert (reply.status, reply.body["error_code"]) == (409, 409)
        assert other.register("payments-value", INT).status == 403
        assert other.call("DELETE", "/subjects/orders-value", headers=basic("alice", "wrong")).status == 401

        # Each file is replaced by itself: the next authority is trusted before its certificates are shown.
        after = Authority("Next Authority")
        for name in NAMES:
            (tmp_path / name / "authority.pem").write_text(authority.pem + after.pem)
        renewed = after.issue("registry")
        for name in NAMES:
            renewed.write_pem(tmp_path / name / "registry.pem")
        for each in found:
            each.context = ssl.create_default_context(cadata=after.pem)
            wait_until_shown(each, renewed)
        assert registered(other, "orders-next", INT).status == 200
        assert leader.get("/subjects") == ["orders-next", "orders-value"]


def test_certificates_of_instances(broker: TlsBroker, of_topic: dict[str, str], tmp_path: Path) -> None:
    """If this fails, an instance that asks for certificates refuses the others, or takes changes from an instance
    without the permissions of a super user.
    """
    authority = Authority()
    listeners = of_https(tmp_path, authority, authority.issue("registry"))
    of_clients = {
        "ssl.client.authentication": "REQUIRED",
        "confluent.schema.registry.auth.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L",
        "kafkastore.bootstrap.servers": broker.open_bootstrap,
    }
    with elected(tmp_path, [{**each, **of_clients, **of_topic} for each in listeners]) as found:
        for each in found:
            each.context = ssl.create_default_context(cadata=authority.pem)
            each.context.load_cert_chain(authority.issue("registry").write_pem(tmp_path / "client.pem"))
        leader, other = roles(found)
        other.context = ssl.create_default_context(cadata=authority.pem)
        other.context.load_cert_chain(authority.issue("alice").write_pem(tmp_path / "client.pem"))
        # The leader sees the certificate of the other instance, which is a super user.
        assert registered(other, "orders-value", INT).status == 200
        assert other.register("payments-value", INT).status == 403
        place = tmp_path / NAMES[found.index(other)]
        authority.issue("stranger").write_pem(place / "registry.pem")
        subjects = (f"orders-{number}" for number in count())

        def refused() -> Reply | None:
            reply = other.register(next(subjects), INT)
            return reply if reply.status != 200 else None

        reply = until(refused, "the answer to another certificate", WAIT_S)
        assert (reply.status, reply.body["error_code"]) == (403, Code.ACCESS_DENIED)
        assert leader.get("/subjects?subjectPrefix=orders-value") == ["orders-value"]
