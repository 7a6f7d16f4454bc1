"""Clusters with TLS and SASL, and a dashboard with its own TLS: it shows the clusters, and no page, log or file
contains a secret.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from bench.launch.dashboard import stop, wait_until_ready
from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.launch.processes import Child
from dashboard.collector.channel import _CHANNELS, channel_class
from dashboard.pages.registry import PAGES
from tests.dashboard.pages.group_kit import drive, layout_of
from tests.dashboard.server.test_logins import PASSWORD as USERS_PASSWORD
from tests.dashboard.server.test_logins import user
from tests.dashboard.support import WAIT_S, Desk
from tests.support import needs
from tests.support.certificates import PASSWORD as STORE_PASSWORD
from tests.support.sasl_broker import ADMIN_PASSWORD, PASSWORD, client_jaas
from tests.support.secured_broker import AUTHORIZED, TOKEN_KEY
from tests.support.tls_broker import TlsBroker

needs.require(needs.tls)

WRONG = "a-wrong-password-4711"
# Passwords of clients, of the broker, and of the dashboard.
SECRETS = (ADMIN_PASSWORD, WRONG, STORE_PASSWORD, PASSWORD, TOKEN_KEY, USERS_PASSWORD)
SUBJECTS = {
    "topic": "orders",
    "group": "billing",
    "broker": "1",
    "setting": "retention.ms",
    "flow": "A->B",
    "application": "billing",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    found = TlsBroker(tmp_path_factory.mktemp("tls"), {**AUTHORIZED, "listener.name.ssl.ssl.client.auth": "required"})
    found.start()
    try:
        asyncio.run(fill(found.open_bootstrap))
        yield found
    finally:
        found.close()


async def fill(bootstrap: str) -> None:
    async with AdminClient(bootstrap) as client:
        (await client.topics.create([NewTopic("orders", 1)])).whole()


def with_login(broker: TlsBroker, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": client_jaas("PLAIN", "admin", password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.authority.write_pem(broker.directory / "authority.pem")),
    }


def with_certificate(broker: TlsBroker) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(broker.authority.issue("admin").write_pkcs12(broker.directory / "admin.p12")),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.authority.write_pem(broker.directory / "authority.pem")),
    }


async def all_that_is_shown(desk: Desk) -> str:
    """Every page and every channel, with errors."""
    found: list[Any] = []
    for page in PAGES:
        taken = inspect.signature(page.layout).parameters
        query = {name: text for name, text in SUBJECTS.items() if name in taken}
        try:
            found.append(layout_of(desk, page.name, **query))
        except ClientError as error:
            found.append(str(error))
    lookers = []
    for name in sorted(_CHANNELS):
        params = {each: SUBJECTS[each] for each in channel_class(name).REQUIRED if each in SUBJECTS}
        try:
            lookers.append(desk.look(name, **params))
        except ClientError as error:
            # This page needs another subject than these.
            found.append(str(error))
    async with asyncio.timeout(WAIT_S):
        while not all(each.states for each in lookers):
            await asyncio.sleep(0.05)
    assert len(lookers) > 40
    found += [[each.states, each.errors] for each in lookers]
    return json.dumps(found, default=str) + repr([desk.hub.entry, vars(desk.hub.session), vars(desk.acts)])


@pytest.mark.parametrize("how", ["login", "wrong", "certificate"])
def test_no_secret_is_shown(broker: TlsBroker, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, every user of the dashboard can read the passwords of its clusters."""
    caplog.set_level(logging.DEBUG)
    settings, bootstrap = with_login(broker, ADMIN_PASSWORD), broker.sasl_bootstrap
    if how == "wrong":
        settings = with_login(broker, WRONG)
    elif how == "certificate":
        settings, bootstrap = with_certificate(broker), f"{broker.host}:{broker.port}"

    async def job(desk: Desk) -> None:
        if how == "login":
            assert "orders" in await desk.rows("topics", lambda state: state["rows"])
        elif how == "wrong":
            assert "Authentication failed" in await desk.look("topics").failed()
        else:
            # The certificate belongs to a user without permissions.
            await desk.state("brokers", lambda state: state["rows"])
        shown = await all_that_is_shown(desk)
        for secret in SECRETS:
            assert secret not in shown + caplog.text, secret

    drive(bootstrap, job, secured=settings)


def clusters_file(path: Path, clusters: Mapping[str, tuple[str, Mapping[str, str]]]) -> None:
    lines = []
    for name, (bootstrap, settings) in clusters.items():
        lines += [f"[clusters.{name}]", f'bootstrap = "{bootstrap}"']
        lines += [f"{setting} = {json.dumps(text)}" for setting, text in settings.items()]
    path.write_text("\n".join(lines) + "\n")


def test_a_dashboard_with_tls_and_logins(broker: TlsBroker, tmp_path: Path) -> None:
    """If this fails, the dashboard does not reach secured clusters, offers old ciphers, or leaves a secret in its log,
    its files or the list of processes.
    """
    users = tmp_path / "users.toml"
    user(users, "add", "ada", "--role", "admin", "--password-stdin")
    clusters = {
        "good": (broker.sasl_bootstrap, with_login(broker, ADMIN_PASSWORD)),
        "bad": (broker.sasl_bootstrap, with_login(broker, WRONG)),
    }
    clusters_file(tmp_path / "clusters.toml", clusters)
    holder = broker.authority.issue("dashboard")
    (tmp_path / "dash.key").write_bytes(holder.key_pem().encode())
    (tmp_path / "dash.pem").write_text(holder.certificate_pem)
    config = f'users = "{users}"\nstate = "{tmp_path / "state"}"\ntls_certificate = "dash.pem"\ntls_key = "dash.key"\n'
    (tmp_path / "dashboard.toml").write_text(config)
    files = ["--clusters-file", str(tmp_path / "clusters.toml"), "--config", str(tmp_path / "dashboard.toml")]
    command = [sys.executable, "-m", "dashboard", "--listen", "127.0.0.1:0", *files]
    child = Child(command, tmp_path / "out", "dashboard", env={"XDG_CONFIG_HOME": str(tmp_path)})
    try:
        url = wait_until_ready(child).rstrip("/")
        trusted = ssl.create_default_context(cadata=broker.authority.pem)
        session = logged_in_and_seen(url, trusted)
        refuses_old_ciphers(url, broker.authority.pem)
        listed = Path(f"/proc/{child.pid}/cmdline").read_text()
        stop(child, signal.SIGINT)
    finally:
        child.kill()
    kept = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    written = [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert kept
    text = b"\n".join([*kept, *written, listed.encode()]).decode("latin-1")
    for secret in (*SECRETS, "a-guess-of-a-password", session):
        assert secret not in text, secret


def logged_in_and_seen(url: str, trusted: ssl.SSLContext) -> str:
    """Log in, the first time with a wrong password; return the cookie of the session."""
    with httpx.Client(base_url=url, headers={"Origin": url}, timeout=30, verify=trusted) as client:
        wrong = client.post("/login", data={"name": "ada", "password": "a-guess-of-a-password", "next": "/"})
        assert wrong.status_code == 401
        assert "a-guess" not in wrong.text
        answer = client.post("/login", data={"name": "ada", "password": USERS_PASSWORD, "next": "/"})
        assert answer.status_code == 303
        (cookie,) = client.cookies.values()
        for name in ("Secure", "HttpOnly", "SameSite=Strict", "__Host-"):
            assert name in answer.headers["set-cookie"]

        def planned(cluster: str) -> str:
            call = {"cluster": cluster, "act": "create-topic", "params": {}, "rows": []}
            values = {"name": "new", "partitions": "1", "replicas": "1", "settings": ""}
            return client.post("/act/plan", json={**call, "values": values}).text

        assert '"plan"' in planned("good")
        assert "Authentication failed" in planned("bad")
    return str(cookie)


def refuses_old_ciphers(url: str, authority: str) -> None:
    address = urlsplit(url)

    def negotiated(ciphers: str) -> str:
        context = ssl.create_default_context(cadata=authority)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
        with (
            socket.create_connection((address.hostname, address.port), 30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as wrapped,
        ):
            found = wrapped.cipher()
        assert found is not None
        return found[0]

    assert "GCM" in negotiated("DEFAULT")
    with pytest.raises(ssl.SSLError):
        negotiated("ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA256")
