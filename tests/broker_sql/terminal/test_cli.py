"""The command broker-sql: sources of statements, outputs, exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker_sql import cli
from tests.broker_sql.terminal.fake_server import FakeServer


def run(monkeypatch: pytest.MonkeyPatch, *words: str, text: str = "") -> int:
    monkeypatch.setattr(sys, "argv", ["broker-sql", *words])
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    monkeypatch.delenv("BROKER_SQL_PASSWORD", raising=False)
    return cli.main()


def test_statements_of_file_and_text(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.sql"
    file.write_text("SHOW ${what};")
    words = ["--server", server.url, "-f", str(file), "-e", "SELECT * FROM orders EMIT CHANGES;", "--output", "json"]
    assert run(monkeypatch, *words, "--define", "what=STREAMS", "--set", "a=b") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["@type"] == "streams"
    assert lines[1:] == [{"ID": 1, "PRICE": 10.1}, {"ID": 2, "PRICE": None}]
    assert [body.get("properties") or body.get("streamsProperties") for _, body in server.asked] == [{"a": "b"}] * 2


def test_statements_of_a_pipe(server: FakeServer) -> None:
    command = [sys.executable, "-m", "broker_sql"]
    environment = {"BROKER_SQL_SERVER": server.url}
    found = subprocess.run(
        command, input="SHOW STREAMS;", capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert found.returncode == 0, found.stderr
    assert "ORDERS" in found.stdout


def test_errors_have_exit_codes_and_the_place(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--server", server.url, "-e", "SHOW STREAMS; SHWO;") == 2
    errors = capsys.readouterr().err
    assert errors.splitlines()[1].index("^") == 14
    assert "did you mean SHOW?" in errors
    assert run(monkeypatch, "--server", server.url, "-e", "DROP STREAM x;", "--output", "json") == 1
    found = capsys.readouterr()
    assert json.loads(found.err)["error"]["reason"].startswith("ORDER does not exist")
    assert json.loads(found.out)["@type"] == "streams"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--server", "localhost"], "http://HOST:PORT"),
        (["--server", "http://x:99999"], "http://HOST:PORT"),
        (["--set", "a"], "NAME=VALUE"),
        (["-f", "/no/such/file.sql"], "No such file"),
        (["--user", "ann"], "BROKER_SQL_PASSWORD"),
        (["--ca-file", "/no/such.pem"], "--ca-file"),
    ],
)
def test_wrong_options_are_named(
    words: list[str], part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *words) == 2
    assert part in capsys.readouterr().err
