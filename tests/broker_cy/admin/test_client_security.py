"""The security settings of clients: what is read, and what is refused because it would not protect."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker_cy.admin.clusters import load_clusters
from broker_cy.admin.security import login_of, read_command_config, tls_of
from broker_cy.client.errors import ClientError, Failure
from tests.support.certificates import Authority

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{SCRAM} required username="alice" password="a-secret";'
BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}


def test_a_file_of_kafka(tmp_path: Path) -> None:
    """If this fails, the client.properties of Kafka's tools do not work here."""
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in BASE.items()) + "request.timeout.ms=30000\n")
    login = login_of(read_command_config(path), "here")
    assert login is not None
    assert login.mechanism == "SCRAM-SHA-256"
    assert b"n=alice" in login.begin().first()
    assert "secret" not in repr(login)
    path.write_text("client.id=x\n")
    assert login_of(read_command_config(path), "here") is None


def test_passwords_of_files_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the password has to be in a file that others read, or in a command line."""
    file = tmp_path / "password"
    file.write_text("p=\u00e4 ss\nmore\n", encoding="utf-8")
    monkeypatch.setenv("ALICE", "p=\u00e4 ss")
    base = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    for source in ({"sasl.password.file": str(file)}, {"sasl.password.env": "ALICE"}):
        login = login_of(base | source, "here")
        assert login is not None
        assert login.begin().first() == "\0alice\0p=\u00e4 ss".encode()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is not known"),
        ({"security.protocol": "SSL"}, "settings of SASL need security.protocol=SASL_PLAINTEXT or SASL_SSL"),
        ({"security.protocol": "PLAINTEXT"}, "settings of SASL need security.protocol=SASL_PLAINTEXT"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism=OAUTHBEARER is not supported yet"),
        ({"ssl.truststore.location": "x"}, "settings of TLS need security.protocol=SSL or SASL_SSL"),
        ({"ssl.cipher.suites": "x"}, "setting ssl.cipher.suites is not supported yet"),
        ({"sasl.client.callback.handler.class": "x"}, "is not supported yet"),
        ({"sasl.username": "bob"}, "either sasl.jaas.config or sasl.username is needed"),
        ({"sasl.jaas.config": JAAS.replace(SCRAM, "com.sun.security.auth.module.JndiLoginModule")}, "is not allowed"),
        ({"sasl.jaas.config": JAAS.replace(";", "")}, "not terminated by semi-colon"),
    ],
)
def test_what_would_not_protect_is_refused(change: dict[str, str], error: str) -> None:
    """If this fails, a client sends a password in the clear that should be encrypted, or ignores a setting."""
    with pytest.raises(ClientError, match=error) as found:
        login_of(BASE | change, "here")
    assert found.value.failure is Failure.INVALID
    assert "a-secret" not in str(found.value)


@pytest.mark.parametrize(
    "source",
    [{}, {"sasl.password.file": "/none"}, {"sasl.password.env": "NOBODY_HAS_IT"}, {"sasl.password.file": "/dev/null"}],
)
def test_a_missing_password_is_reported(source: dict[str, str]) -> None:
    """If this fails, a client logs in with an empty password."""
    base = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    with pytest.raises(ClientError, match=r"sasl\.password"):
        login_of(base | source, "here")


def test_the_cluster_file(tmp_path: Path) -> None:
    """If this fails, a console cannot reach a cluster that wants a login."""
    path = tmp_path / "clusters.toml"
    for quote in ("", '"'):
        fields = "".join(f"{quote}{name}{quote} = '{text}'\n" for name, text in BASE.items())
        path.write_text(f'[clusters.a]\nbootstrap = "h:1"\n{fields}[clusters.b]\nbootstrap = "h:2"\n')
        found = load_clusters(path)
        login = found.entry("a").login
        assert login is not None
        assert login.mechanism == "SCRAM-SHA-256"
        assert found.entry("b").login is None
        assert "a-secret" not in repr(found)
    for bad in ("sasl.mechanism = 3", 'ssl.protocol = "x"', "security = 3"):
        path.write_text(f'[clusters.a]\nbootstrap = "h:1"\n{bad}\n')
        with pytest.raises(ClientError):
            load_clusters(path)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"ssl.truststore.location": "/none"}, "No such file"),
        ({"ssl.truststore.password": "a-secret"}, "trust store is not specified"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, r"use TLSv1\.2, TLSv1\.3"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "use https"),
        ({"ssl.key.password.env": "NOBODY_HAS_IT"}, "the environment has no NOBODY_HAS_IT"),
        ({"ssl.key.password.file": "/none", "ssl.key.password": "a-secret"}, "given twice"),
    ],
)
def test_tls_that_would_not_protect_is_refused(change: dict[str, str], error: str) -> None:
    """If this fails, a client connects without the protection that is configured."""
    with pytest.raises(ClientError, match=error) as found:
        tls_of({"security.protocol": "SSL"} | change, "here")
    assert "a-secret" not in str(found.value)


def test_tls_of_clients() -> None:
    """If this fails, a client checks neither who the broker is nor whether its certificate is good."""
    authority = Authority()
    found = tls_of({"security.protocol": "SSL"}, "here")
    assert found is not None
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)
    stores = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem}
    found = tls_of({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "", **stores}, "here")
    assert found is not None
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert found.get_ca_certs(binary_form=True) == [authority.der]
    assert tls_of({}, "here") is None
