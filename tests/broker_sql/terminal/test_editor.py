"""The editor: when Enter runs a text, what is completed, what is highlighted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from broker_cy.client.errors import ClientError
from broker_sql.client import SqlClient
from broker_sql.dialect import parse
from broker_sql.errors import ParseError
from broker_sql.terminal.completion import complete
from broker_sql.terminal.editor import Editor, command_of, history_path, is_whole
from broker_sql.terminal.highlight import marked, styled
from broker_sql.terminal.names import ServerNames
from tests.broker_sql.terminal.fake_server import FakeServer


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("SHOW STREAMS;", True),
        ("SHOW STREAMS", False),
        ("SELECT ';", False),
        ("SELECT ';' FROM a", False),
        ("SHOW STREAMS; -- done", True),
        ("SHOW STREAMS; SHOW", False),
        ("/* ; ", True),
        ("exit", True),
        ("Output  JSON", True),
        ("exits", False),
    ],
)
def test_enter_runs_whole_texts(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


def test_commands_of_the_editor() -> None:
    assert command_of(" QUIT; ") == "quit"
    assert command_of("quit orders") is None


def candidates(client: SqlClient, before: str, after: str = "") -> list[str]:
    found, _ = complete(before, after, ServerNames(client))
    return [each.text for each in found]


def test_keywords_are_completed_by_what_the_parser_expects(client: SqlClient) -> None:
    assert candidates(client, "SHOW ST") == ["STREAMS"]
    assert candidates(client, "SHOW STREAMS; CREATE STR") == ["STREAM"]
    assert candidates(client, "SELECT a FROM orders WINDOW ") == ["TUMBLING", "HOPPING", "SESSION"]
    assert "EMIT" in candidates(client, "SELECT a FROM orders ")
    assert candidates(client, "SELECT a FROM orders WHERE ) ") == []


def test_names_are_those_of_the_server(client: SqlClient) -> None:
    assert candidates(client, "SELECT * FROM or") == ["ORDERS"]
    assert candidates(client, "DROP TABLE or") == []
    assert candidates(client, "PRINT ") == ["'my-topic'"]
    assert candidates(client, "DESCRIBE FUNCTION u") == ["UCASE"]
    assert candidates(client, "DESCRIBE or") == ["ORDERS"]


def test_columns_are_those_of_the_sources_in_the_statement(client: SqlClient) -> None:
    assert candidates(client, "SELECT ta", " FROM orders o;") == ["TAGS"]
    assert candidates(client, "SELECT u", " FROM orders") == ["UCASE("]
    assert candidates(client, "SELECT o.", " FROM orders o") == ["ID", "TAGS", "`shop`"]
    assert candidates(client, "SELECT * FROM orders AS o WHERE o.`sh") == ["`shop`"]
    assert candidates(client, "INSERT INTO orders (i") == ["ID"]
    assert "ID" not in candidates(client, "SELECT ", " FROM others")
    assert candidates(client, "SELECT ta") == ["TAGS"]


def test_a_server_that_does_not_answer_completes_only_keywords(server: FakeServer, client: SqlClient) -> None:
    server.login = "ann:secret"
    assert candidates(client, "SELECT * FROM ") == []
    assert candidates(client, "SHOW STR") == ["STREAMS"]
    with pytest.raises(ClientError):
        client.info()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT `a`, UCASE(b) -- c\nFROM x WHERE d = 'e' AND f > 1.5;",
        "SELECT 'not ended",
        "SELECT /* not ended",
        "SELECT # wrong",
        "",
    ],
)
def test_highlighting_keeps_the_text(text: str) -> None:
    assert "".join(part for _, part in styled(text)) == text


def test_highlighting() -> None:
    found = {text: style for style, text in styled("SELECT `a`, UCASE(b) -- c\nFROM x WHERE d = 'e' AND f > 1.5")}
    assert found["SELECT"] == found["FROM"] == "keyword"
    assert (found["`a`"], found["UCASE"], found["b"]) == ("name", "function", "")
    assert (found["'e'"], found["1.5"], found[" -- c\n"]) == ("string", "number", "comment")
    assert styled("SELECT 'x")[-1] == ("string", "'x")


def test_the_place_of_an_error_is_marked() -> None:
    text = "SHOW STREAMS;\nSELECT a FORM b;"
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert marked(text, raised.value) == "SELECT a FORM b;\n              ^"


def test_statements_over_several_lines(client: SqlClient, tmp_path: Path) -> None:
    history = tmp_path / "state" / "history"
    with create_pipe_input() as keys:
        editor = Editor(ServerNames(client), history, keys, DummyOutput())
        keys.send_text("SELECT a\rFROM b;\r")
        assert editor.read() == "SELECT a\nFROM b;"
        keys.send_text("\x04")
        with pytest.raises(EOFError):
            editor.read()
        keys.send_text("abc\x03")
        with pytest.raises(KeyboardInterrupt):
            editor.read()
    assert "+SELECT a" in history.read_text()
    assert stat.S_IMODE(os.stat(history).st_mode) == 0o600


def test_the_history_is_kept_with_the_state_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert history_path() == Path("/x/broker-cy/sql_history")
