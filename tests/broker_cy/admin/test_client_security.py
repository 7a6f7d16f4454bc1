"""The security settings of clients: settings that are read, and settings that are rejected because they would not
protect.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from broker_cy.client.clusters import load_clusters
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.security import librdkafka_settings, login_of, read_command_config, tls_of
from broker_cy.security.sasl.exchange import LoginFailed
from tests.support.certificates import Authority

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{SCRAM} required username="alice" password="a-secret";'
GCM, CHACHA20 = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
OF_TLS_13 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}


def test_a_file_of_kafka(tmp_path: Path) -> None:
    """If this fails, the client.properties of Kafka's tools do not work here."""
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in BASE.items()) + "request.timeout.ms=30000\n")
    login = login_of(read_command_config(path), "here")
    assert login is not None
    assert login.mechanism == "SCRAM-SHA-256"
    assert b"n=alice" in login.begin("h").first()
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
        assert login.begin("h").first() == "\0alice\0p=\u00e4 ss".encode()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is not known"),
        ({"security.protocol": "SSL"}, "settings of SASL need security.protocol=SASL_PLAINTEXT or SASL_SSL"),
        ({"security.protocol": "PLAINTEXT"}, "settings of SASL need security.protocol=SASL_PLAINTEXT"),
        ({"ssl.truststore.location": "x"}, "settings of TLS need security.protocol=SSL or SASL_SSL"),
        ({"ssl.cipher.suites": "x"}, "settings of TLS need security.protocol=SSL or SASL_SSL"),
        ({"ssl.provider": "x"}, "setting ssl.provider is not supported yet"),
        ({"sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism=DIGEST-MD5 is not supported: use GSSAPI"),
        ({"sasl.mechanism": "GSSAPI"}, "is not allowed: the login module of GSSAPI"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "is not allowed"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///x"}, "does not belong to sasl.mechanism=SCRAM-SHA-256"),
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


OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials.client."


def test_a_token_in_a_file(tmp_path: Path) -> None:
    """If this fails, a job whose platform gives it a token cannot use it, or uses an old one."""
    file = tmp_path / "token"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    login = login_of(OAUTH | {TOKEN_URL: file.as_uri(), "sasl.jaas.config": f"{module} required ;"}, "here")
    assert login is not None
    for text in ("a.b.c", "d.e.f"):
        file.write_text(f"{text}\n")
        assert login.begin("h").first() == f"n,,\x01auth=Bearer {text}\x01\x01".encode()
        assert text not in repr(login)
    file.write_text("no token")
    with pytest.raises(LoginFailed):
        login.begin("h")
    file.unlink()
    with pytest.raises(LoginFailed, match="No such file"):
        login.begin("h")


class Handler(BaseHTTPRequestHandler):
    seen: ClassVar[list[tuple[str, str]]] = []
    answer: ClassVar[bytes] = b""

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.seen.append((self.headers["Authorization"], form))
        self.send_response(302 if self.path == "/elsewhere" else 200)
        self.send_header("Location", "/token")
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


def test_a_token_of_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clients cannot get tokens, ask for one with each connection, or send their secret elsewhere."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("JOB_SECRET", "a-secret")
    now_s = 0.0
    try:
        url = f"http://127.0.0.1:{server.server_port}/token"
        settings = OAUTH | {TOKEN_URL: url, f"{CREDENTIALS}id": "job", "sasl.oauthbearer.scope": "a b"}
        login = login_of(settings | {f"{CREDENTIALS}secret.env": "JOB_SECRET"}, "here")
        assert login is not None
        monkeypatch.setattr(login._login, "_now_s", lambda: now_s)
        Handler.answer = b'{"access_token": "a.b.c", "expires_in": 100}'
        for passed_s, count in ((0.0, 1), (79.0, 1), (2.0, 2)):
            now_s += passed_s
            assert b"Bearer a.b.c" in asyncio.run(login.begin_async("h")).first()
            assert b"Bearer a.b.c" in login.begin("h").first()
            assert len(Handler.seen) == count
        assert Handler.seen[0] == ("Basic am9iOmEtc2VjcmV0", "grant_type=client_credentials&scope=a+b")
        # The provider fails, and the last token has not expired: it is used, and the provider asked again after 1 s.
        Handler.answer = b"{}"
        for passed_s, count in ((81.0, 3), (0.5, 3), (0.6, 4)):
            now_s += passed_s
            assert b"Bearer a.b.c" in login.begin("h").first()
            assert len(Handler.seen) == count
        for answer in (b"", b"[]", b"{}", b'{"access_token": 1}', b'{"error": "a-secret"}'):
            now_s += 1_000
            Handler.answer = answer
            with pytest.raises(LoginFailed) as found:
                login.begin("h")
            assert "a-secret" not in str(found.value) + repr(login)
        elsewhere = login_of(
            settings | {TOKEN_URL: url.replace("/token", "/elsewhere"), f"{CREDENTIALS}secret": "a-secret"}, "here"
        )
        assert elsewhere is not None
        count = len(Handler.seen)
        with pytest.raises(LoginFailed, match="302"):
            elsewhere.begin("h")
        assert len(Handler.seen) == count + 1
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, "use https"),
        ({TOKEN_URL: "ftp://x/"}, "use https"),
        ({TOKEN_URL: "http://idp.example.com/", f"{CREDENTIALS}id": "a", f"{CREDENTIALS}secret": "b"}, "use https"),
        ({TOKEN_URL: "https://idp.example.com/"}, "needs"),
        ({TOKEN_URL: "https://idp.example.com/", f"{CREDENTIALS}id": "a"}, "needs either"),
        (
            {
                TOKEN_URL: "https://idp.example.com/",
                f"{CREDENTIALS}id": "a",
                f"{CREDENTIALS}secret": "b",
                f"{CREDENTIALS}secret.env": "HOME",
            },
            "twice",
        ),
        ({TOKEN_URL: "file:///x", f"{CREDENTIALS}id": "a"}, "does not belong to a file"),
        ({TOKEN_URL: "file:///x", "sasl.username": "a"}, "does not belong to sasl.mechanism=OAUTHBEARER"),
        ({TOKEN_URL: "file:///x", "sasl.login.callback.handler.class": "x"}, "is not supported"),
        ({TOKEN_URL: "file:///x", "sasl.jaas.config": JAAS}, "is not allowed"),
    ],
)
def test_settings_of_tokens_that_are_refused(settings: dict[str, str], error: str) -> None:
    """If this fails, a client sends its secret in the clear, or ignores a setting."""
    with pytest.raises(ClientError, match=error):
        login_of(OAUTH | settings, "here")


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
    for bad in ("sasl.mechanism = 3", 'ssl.provider = "x"', "security = 3"):
        path.write_text(f'[clusters.a]\nbootstrap = "h:1"\n{bad}\n')
        with pytest.raises(ClientError):
            load_clusters(path)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"ssl.truststore.location": "/none"}, "No such file"),
        ({"ssl.truststore.password": "a-secret"}, "trust store is not specified"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, r"use TLSv1\.2, TLSv1\.3"),
        ({"ssl.protocol": "SSLv3"}, r"use TLSv1\.3, TLSv1\.2 or TLS"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "use https"),
        ({"ssl.cipher.suites": "TLS_NO_WITH_SUCH"}, "the cipher suite TLS_NO_WITH_SUCH is not known"),
        ({"ssl.cipher.suites": f"{GCM}, ECDHE-RSA-AES256-GCM-SHA384"}, "ECDHE-RSA-AES256-GCM-SHA384 is not known"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "of TLS 1.3 either all or none"),
        ({"ssl.cipher.suites": GCM, "ssl.enabled.protocols": "TLSv1.3"}, "no suite of the versions"),
        ({"ssl.key.password.env": "NOBODY_HAS_IT"}, "the environment has no NOBODY_HAS_IT"),
        ({"ssl.key.password.file": "/none", "ssl.key.password": "a-secret"}, "given twice"),
    ],
)
def test_tls_that_would_not_protect_is_refused(change: dict[str, str], error: str) -> None:
    """If this fails, a client connects without the protection that is configured."""
    with pytest.raises(ClientError, match=error) as found:
        tls_of({"security.protocol": "SSL"} | change, "here")
    assert "a-secret" not in str(found.value)


@pytest.mark.parametrize(
    ("settings", "versions", "ciphers"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2"}, ("TLSv1_2", "TLSv1_2"), None),
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1_2", "TLSv1_3"), None),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": ""}, ("TLSv1_2", "TLSv1_2"), None),
        ({"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": ""}, ("TLSv1_2", "TLSv1_3"), None),
        ({"ssl.cipher.suites": GCM}, ("TLSv1_2", "TLSv1_2"), ["ECDHE-RSA-AES128-GCM-SHA256"]),
        (
            {"ssl.cipher.suites": f"{','.join(OF_TLS_13)}, {CHACHA20},{GCM}"},
            ("TLSv1_2", "TLSv1_3"),
            ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"],
        ),
        ({"ssl.cipher.suites": ",".join(OF_TLS_13)}, ("TLSv1_3", "TLSv1_3"), None),
        (
            {"ssl.cipher.suites": "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256,TLS_RSA_WITH_AES_256_CBC_SHA"},
            ("TLSv1_2", "TLSv1_2"),
            ["DHE-RSA-AES128-SHA256", "AES256-SHA"],
        ),
    ],
)
def test_versions_and_suites(settings: dict[str, str], versions: tuple[str, str], ciphers: list[str] | None) -> None:
    """If this fails, a client offers TLS parameters that its settings exclude."""
    found = tls_of({"security.protocol": "SSL"} | settings, "here")
    assert found is not None
    assert (found.minimum_version.name, found.maximum_version.name) == versions
    if ciphers is not None:
        assert [each["name"] for each in found.get_ciphers() if each["protocol"] != "TLSv1.3"] == ciphers


def test_librdkafka_cannot_select_suites(tmp_path: Path) -> None:
    """If this fails, a load generator offers TLS parameters that its settings exclude."""
    for setting in (f"ssl.cipher.suites={GCM}", "ssl.enabled.protocols=TLSv1.2"):
        path = tmp_path / "client.properties"
        path.write_text(f"security.protocol=SSL\n{setting}\n")
        with pytest.raises(ClientError, match="librdkafka has no setting"):
            librdkafka_settings(read_command_config(path), str(path))


def test_tls_of_clients() -> None:
    """If this fails, a client verifies neither the broker's name nor its certificate."""
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
