"""Registries with TLS, logins and ACLs as processes, and `broker-cy schemas` as their client."""

from __future__ import annotations

import base64
import ssl
import time
from pathlib import Path

import pytest

from tests.broker_cy.commands.conftest import Cli, bare
from tests.broker_registry.security.running import (
    ACLS,
    INT,
    OF_BOB,
    PASSWORDS,
    WAIT_S,
    basic,
    change,
    https,
    running,
    shown_certificate,
    to_cluster,
)
from tests.support.certificates import Authority
from tests.support.oauth_provider import AUDIENCE, ISSUER, Provider, claims, key_set, rsa_key, token
from tests.support.registry import Registry, RegistryProcess
from tests.support.sasl_broker import client_jaas, write_properties
from tests.support.tls_broker import TlsBroker
from tests.support.wait import until

__all__ = ["bare"]


def client_file(directory: Path, authority: Authority, settings: dict[str, str]) -> Path:
    """A file for --registry-config, as Confluent's clients have it."""
    file = directory / "client.properties"
    trusted = authority.write_pem(directory / "trusted.pem")
    of_tls = {"schema.registry.ssl.truststore.type": "PEM", "schema.registry.ssl.truststore.location": str(trusted)}
    write_properties(file, {**of_tls, **settings})
    return file


def test_users_of_the_cluster_over_sasl_ssl(broker: TlsBroker, tmp_path: Path, bare: Cli) -> None:
    """If this fails, a registry of a secured cluster does not start, lets the wrong users in, or its clients do not
    get through.
    """
    authority = broker.authority
    settings = {
        **https(tmp_path, authority, authority.issue("registry")),
        **to_cluster(tmp_path, broker),
        "authentication.skip.paths": "/_health",
        **ACLS,
    }
    with running(tmp_path, settings) as registry:
        registry.context = ssl.create_default_context(cadata=authority.pem)
        assert registry.get("/_health")["healthy"] is True
        for headers in ({}, basic("alice", "wrong"), basic("nobody", "x"), {"Authorization": "Bearer x"}):
            reply = registry.call("GET", "/subjects", headers=headers)
            assert (reply.status, reply.body["error_code"]) == (401, 40101)
        registry.headers = basic("alice")
        assert registry.register("orders-value", INT).status == 200
        assert registry.register("payments-value", INT).body == {
            "error_code": 40301,
            "message": "User is denied operation Write on Subject: payments-value",
        }
        registry.headers = basic("bob")
        assert registry.get("/subjects") == ["orders-value"]
        assert registry.register("orders-value", '"string"').status == 403

        file = client_file(tmp_path, authority, {"basic.auth.user.info": f"bob:{PASSWORDS['bob']}"})
        options = ("--registry", registry.url, "--registry-config", str(file))
        assert "orders-value" in bare("schemas", "list", *options).out
        assert "error code 40301" in bare("schemas", "show", "payments-value", *options, code=1).err

        change(broker, removed=OF_BOB)
        until(lambda: registry.get("/subjects") == [], "the removed right to end", WAIT_S)
        change(broker, OF_BOB)
        until(lambda: registry.get("/subjects") == ["orders-value"], "the right to begin", WAIT_S)
    assert "registry-password" not in registry.child.stdout() + registry.child.stderr()
    assert PASSWORDS["bob"] not in registry.child.stdout() + registry.child.stderr()


def test_certificates_of_clients(broker: TlsBroker, tmp_path: Path, bare: Cli) -> None:
    """If this fails, clients with certificates have no rights, those without one get in, or a new certificate needs a
    restart.
    """
    authority = Authority()
    first, second = authority.issue("registry"), authority.issue("registry")
    settings = {
        **https(tmp_path, authority, first),
        "listeners": "http://127.0.0.1:0,https://127.0.0.1:0",
        "kafkastore.bootstrap.servers": broker.open_bootstrap,
        "ssl.client.authentication": "REQUIRED",
        "confluent.schema.registry.auth.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L",
        **ACLS,
    }
    own = authority.issue("ALICE").write_pem(tmp_path / "alice.pem")
    with running(tmp_path, settings) as registry:
        plain, secure = registry.urls
        # The listener without TLS knows no certificates, so that its clients have no identity.
        assert Registry(plain).call("GET", "/subjects").status == 401
        client = Registry(secure)
        client.context = ssl.create_default_context(cadata=authority.pem)
        with pytest.raises(OSError, match=r"certificate required|reset|EOF|closed"):
            client.get("/subjects")
        client.context.load_cert_chain(own)
        assert client.register("orders-value", INT).status == 200
        assert client.register("payments-value", INT).status == 403

        of_client = {"schema.registry.ssl.keystore.type": "PEM", "schema.registry.ssl.keystore.location": str(own)}
        file = client_file(tmp_path, authority, of_client)
        said = bare("schemas", "list", "--registry", secure, "--registry-config", str(file))
        assert "orders-value" in said.out
        assert shown_certificate(secure, client.context) == first.der
        second.write_pem(tmp_path / "registry.pem")
        until(lambda: shown_certificate(secure, client.context) == second.der, "the new certificate", WAIT_S)


def test_bearer_tokens(broker: TlsBroker, tmp_path: Path, bare: Cli) -> None:
    """If this fails, tokens of the provider are refused, or those of others, of other audiences or without a signature
    are accepted.
    """
    authority = Authority()
    key, other = rsa_key("one"), rsa_key("one")
    with Provider(key_set(key)) as provider:
        settings = {
            **https(tmp_path, authority, authority.issue("registry")),
            "kafkastore.bootstrap.servers": broker.open_bootstrap,
            "authentication.method": "BEARER",
            "oauthbearer.jwks.endpoint.url": provider.url,
            "oauthbearer.expected.audience": AUDIENCE,
            "oauthbearer.expected.issuer": ISSUER,
            **ACLS,
        }
        with running(tmp_path, settings) as registry:
            registry.context = ssl.create_default_context(cadata=authority.pem)
            good = token(key, claims("alice"))
            header = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
            unsigned = f"{header}.{good.split('.')[1]}."
            for wrong in (
                token(other, claims("alice")),
                token(key, claims("alice", aud="other")),
                token(key, claims("alice", iss="https://other.example.com")),
                token(key, claims("alice", exp=int(time.time()) - 3_600)),
                unsigned,
                "x",
            ):
                reply = registry.call("GET", "/subjects", headers={"Authorization": f"Bearer {wrong}"})
                assert (reply.status, reply.body["error_code"]) == (401, 40101)
            registry.headers = {"Authorization": f"Bearer {good}"}
            assert registry.register("orders-value", INT).status == 200
            assert registry.register("payments-value", INT).status == 403
            file = client_file(tmp_path, authority, {"bearer.auth.token": good})
            said = bare("schemas", "list", "--registry", registry.url, "--registry-config", str(file))
            assert "orders-value" in said.out


def test_a_cluster_without_acls_stops_the_start(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, broker: TlsBroker
) -> None:
    """If this fails, a registry that is to check rights starts without them, or does not say why it does not start."""
    users = tmp_path / "users"
    users.write_text("alice: alice-password\n")
    file = tmp_path / "schema-registry.properties"
    # Its principal, the certificate, may not read the ACLs.
    stores = {f"kafkastore.{name}": value for name, value in broker.stores().items() if "keystore" not in name}
    write_properties(
        file,
        {
            "listeners": "http://127.0.0.1:0",
            "kafkastore.bootstrap.servers": f"SASL_SSL://{broker.sasl_bootstrap}",
            "kafkastore.sasl.mechanism": "SCRAM-SHA-512",
            "kafkastore.sasl.jaas.config": client_jaas("SCRAM-SHA-512", "bob", PASSWORDS["bob"]),
            "authentication.method": "BASIC",
            "brokercy.registry.users.file": str(users),
            **stores,
            **ACLS,
        },
    )
    registry = RegistryProcess("", tmp_path_factory.mktemp("registry"), [str(file)], listen="")
    try:
        assert registry.child.wait(WAIT_S) != 0
        assert "listening" not in registry.child.stdout()
        assert PASSWORDS["bob"] not in registry.child.stderr()
    finally:
        registry.kill()
