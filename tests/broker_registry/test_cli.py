"""The command `broker-registry` with files of Confluent's registry that it cannot use as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_registry.cli import command

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
