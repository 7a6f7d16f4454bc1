"""A cluster with TLS and SASL: the console reaches it, and no screen, picture or log contains a secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest

from admin_tui.picture import svg_of
from admin_tui.registry import SPECS
from broker_cy.admin.address import parse_addresses
from broker_cy.client.clusters import ClusterEntry
from tests.admin_tui.conftest import Terminal, drive
from tests.support import needs
from tests.support.sasl_broker import ADMIN_PASSWORD, PASSWORD, client_jaas
from tests.support.secured_broker import AUTHORIZED, TOKEN_KEY
from tests.support.tls_broker import TlsBroker
from tests.support.wait import until

needs.require(needs.tls)

SIZE = (160, 50)
WRONG = "a-wrong-password-4711"
SECRETS = (ADMIN_PASSWORD, WRONG, PASSWORD, TOKEN_KEY)
ARGUMENTS = {"topic": "__broker_metrics", "group": "billing", "broker": "1", "subject": "orders-value", "flow": "A->B"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    found = TlsBroker(tmp_path_factory.mktemp("tls"), AUTHORIZED)
    found.start()
    try:
        # The broker creates this topic itself, some time after it has started to serve.
        topic = ARGUMENTS["topic"]
        client = confluent_kafka.admin.AdminClient({"bootstrap.servers": found.open_bootstrap})
        until(lambda: topic in client.list_topics(timeout=10).topics, f"topic {topic}")
        yield found
    finally:
        found.close()


def is_answered(terminal: Terminal) -> bool:
    """Whether each panel shows a response or the reason why none arrived."""
    screen: Any = terminal.app.screen
    if not screen.query("KeyBar"):
        return False
    sources = [link.source for link in screen._links if link.panel is not None]
    if not sources:
        return any(
            text in terminal.text() for text in (" found", "Authentication failed", "No schema registry is known")
        )
    return all(each.error is not None or each.age_s is not None for each in sources)


@pytest.mark.parametrize("password", [ADMIN_PASSWORD, pytest.param(WRONG, marks=pytest.mark.full)])
def test_no_secret_is_on_a_screen(broker: TlsBroker, password: str, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, the password of a cluster is readable on a screen, in a picture or in a log; or the console cannot
    reach a cluster with TLS and SASL.
    """
    caplog.set_level(logging.DEBUG)
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": client_jaas("PLAIN", "admin", password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.authority.write_pem(broker.directory / "authority.pem")),
    }
    entry = ClusterEntry("c", parse_addresses(broker.sasl_bootstrap), secured=settings)
    seen: list[str] = []

    async def job(terminal: Terminal) -> None:
        for spec in SPECS:
            argument = ARGUMENTS.get(spec.argument.rstrip("?"), "")
            terminal.app.run_command(f"{spec.name} {argument}".strip())
            await terminal.goes_to(spec.name)
            await terminal.until(lambda: is_answered(terminal), f"answers for {spec.name}")
            seen.append(terminal.text())
            seen.append(svg_of(terminal.app.screen._compositor.render_strips(), SIZE[0]))
            if spec.name == "brokers":
                await terminal.shows(broker.host if password == ADMIN_PASSWORD else "Authentication failed")

    drive(entry, job, size=SIZE)
    text = "\n".join([*seen, caplog.text, repr(entry)])
    for secret in SECRETS:
        assert secret not in text, secret
