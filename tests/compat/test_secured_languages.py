"""Clients in Go and JavaScript log in with SCRAM over TLS; those in Java, C and Python are in test_tls."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench.launch import go_programs
from broker_cy.launch.processes import ProcessError, run
from tests.support import needs
from tests.support.broker import target_is_kafka
from tests.support.node import run_script
from tests.support.tls_broker import TlsBroker

needs.require(needs.tls)
pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own settings")
USER, PASSWORD = "gopher", "a password, of somebody"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    secured = TlsBroker(tmp_path_factory.mktemp("languages"))
    secured.start()
    secured.add_user(USER, PASSWORD, ["SCRAM-SHA-512"])
    yield secured
    secured.close()


def environment(broker: TlsBroker, password: str = PASSWORD) -> Mapping[str, str]:
    authority = broker.directory / "authority.pem"
    return {**os.environ, "LIFE_USER": USER, "LIFE_PASSWORD": password, "LIFE_CA": str(authority)}


@pytest.mark.full
@pytest.mark.timeout(360)  # the first of them compiles
@needs.go
@pytest.mark.parametrize("scenario", ["records", "codecs", "group"])
def test_franz_go(broker: TlsBroker, topic: str, group: str, scenario: str) -> None:
    """If this fails, Go programs cannot use a secured cluster."""
    program = go_programs.program(Path(__file__).with_name("franz_go"))
    command: list[str | Path] = [program, scenario, broker.sasl_bootstrap, topic, group]
    run(command, timeout_s=90, env=environment(broker))
    with pytest.raises(ProcessError, match=r"(?i)sasl|authentication"):
        run(command, timeout_s=90, env=environment(broker, "guessed"))


def test_kafkajs(broker: TlsBroker, topic: str, group: str) -> None:
    """If this fails, JavaScript programs cannot use a secured cluster."""
    found = run_script(
        "kafkajs_life.mjs", "commitAndGoOn", broker.sasl_bootstrap, topic, group, env=environment(broker)
    )
    assert json.loads(found.stdout) == ["4", "5", "6", "7", "8", "9"]
