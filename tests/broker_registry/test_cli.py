"""The command `broker-registry` with files of Confluent's registry that it cannot use as they are."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.launch.processes import run
from broker_registry.cli import command
from broker_registry.service import Service, ServiceSettings
from tests.support.broker import BrokerProcess

BROKER = "kafkastore.bootstrap.servers=SASL_PLAINTEXT://127.0.0.1:1"


def refusal(directory: Path, lines: list[str], *options: str) -> str:
    """Return the error of the command, which names the file."""
    path = directory / "schema-registry.properties"
    path.write_text("\n".join(lines))
    result = CliRunner().invoke(command, [str(path), "--listen", "127.0.0.1:0", *options])
    assert result.exit_code == 2, result.output
    return result.stderr.replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["authentication.method=BASIC", "authentication.realm=SchemaRegistry-Props", "authentication.roles=admin"],
            "authentication.method=BASIC needs either brokercy.registry.users.file, the file that "
            "PropertyFileLoginModule has in a JAAS file (which is not read), or",
        ),
        (
            [BROKER, "kafkastore.sasl.mechanism=PLAIN"],
            "FILE: kafkastore.*: either sasl.jaas.config or sasl.username is needed",
        ),
        (
            ["kafkastore.bootstrap.servers=127.0.0.1:1", "kafkastore.sasl.mechanism=PLAIN"],
            "FILE: kafkastore.*: settings of SASL need security.protocol=SASL_PLAINTEXT or SASL_SSL",
        ),
    ],
    ids=["basic", "no jaas", "no protocol"],
)
def test_logins_of_jaas_files_are_asked_for(tmp_path: Path, lines: list[str], message: str) -> None:
    """If this fails, an operator whose login is in a JAAS file does not learn where it has to be instead."""
    assert message in refusal(tmp_path, lines)


def test_options_of_the_connection_replace_the_file(tmp_path: Path) -> None:
    """If this fails, an operator cannot try another login, or is sent to the file for a mistake in an option."""
    lines = [BROKER, "kafkastore.sasl.mechanism=PLAIN"]
    assert "FILE: kafkastore.* and -X: sasl.mechanism=X" in refusal(tmp_path, lines, "-X", "sasl.mechanism=X")
    other = tmp_path / "client.properties"
    other.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n")
    assert f"{other}: either sasl.jaas.config" in refusal(tmp_path, lines, "--command-config", str(other))


def test_a_cluster_that_cannot_be_used_has_the_exit_code_and_the_form_of_all_programs(tmp_path: Path) -> None:
    """If this fails, a script that starts registries cannot tell an absent broker from a setting that is wrong."""
    argv = [sys.executable, "-m", "broker_registry", "--listen", "127.0.0.1:0", "--bootstrap", "127.0.0.1:1"]
    ended = run(argv, check=False, cwd=tmp_path)
    reason = "connection refused: no process listens there"
    assert (ended.returncode, ended.stderr.decode()) == (
        3,
        f"broker-registry: connect, broker 127.0.0.1:1: {reason}\n",
    )
    ended = run([*argv, "--json"], check=False, cwd=tmp_path)
    assert (ended.returncode, json.loads(ended.stderr)["error"]["reason"]) == (3, reason)


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (NewTopic("", 3, 1, {"cleanup.policy": "compact"}), "the topic has 3 partitions; that of a registry has one"),
        (NewTopic("", 1, 1), "cleanup.policy is delete, so that records are deleted; set it to compact"),
    ],
    ids=["partitions", "policy"],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    broker: BrokerProcess, topic: str, new: NewTopic, problem: str
) -> None:
    """If this fails, schemas are deleted after a week, or instances see other ids."""

    async def open_service() -> None:
        async with AdminClient(broker.bootstrap) as client:
            (await client.topics.create([replace(new, name=topic)])).whole()
        async with Service(lambda: AdminClient(broker.bootstrap), ServiceSettings(topic=topic)):
            pass

    with pytest.raises(ClientError, match=problem):
        asyncio.run(open_service())
