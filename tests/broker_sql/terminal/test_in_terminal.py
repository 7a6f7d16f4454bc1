"""The editor as a user sees it: in a terminal, from its start to Ctrl-C of a query and `exit`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.broker_sql.terminal.fake_server import FakeServer
from tests.support.terminal import in_terminal


def test_statements_and_a_query_in_the_editor(server: FakeServer, tmp_path: Path) -> None:
    server.is_endless = True
    shown = in_terminal(
        [sys.executable, "-m", "broker_sql", "--server", server.url],
        typed_at={
            "sql>": b"SHOW STREAMS;\r",
            "KAFKA": b"SELECT * FROM orders EMIT CHANGES;\r",
            ", ended": b"output json\rSHOW STREAMS;\r",
            '"@type": "streams"': b"SHWO;\r",
            "did you mean SHOW?": b"exit\r",
        },
        interrupt_at="Ctrl-C ends the query",
        env={"XDG_STATE_HOME": str(tmp_path), "PROMPT_TOOLKIT_NO_CPR": "1"},
    )
    assert shown.code == 0, shown.screen
    assert "connected to tests_ at" in shown.screen
    assert ("/close-query", {"queryId": "q_1"}) in server.asked
    history = (tmp_path / "broker-cy" / "sql_history").read_text()
    assert "+SELECT * FROM orders EMIT CHANGES;" in history
