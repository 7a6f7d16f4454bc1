"""A server with the REST API of ksqlDB and fixed answers, for tests of its clients."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from broker_sql.client import Server

FIELDS = [
    {"name": "ID", "schema": {"type": "BIGINT"}, "type": "KEY"},
    {"name": "TAGS", "schema": {"type": "ARRAY", "memberSchema": {"type": "STRING"}}},
    {"name": "shop", "schema": {"type": "STRUCT", "fields": [{"name": "CITY", "schema": {"type": "STRING"}}]}},
]
ORDERS = {
    "name": "ORDERS",
    "type": "STREAM",
    "topic": "orders",
    "keyFormat": "KAFKA",
    "valueFormat": "JSON",
    "fields": FIELDS,
    "readQueries": [],
    "writeQueries": [],
}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "SHOW STREAMS;": [
        {
            "@type": "streams",
            "statementText": "SHOW STREAMS;",
            "streams": [{"name": "ORDERS", "topic": "orders", "keyFormat": "KAFKA", "valueFormat": "JSON"}],
        }
    ],
    "DESCRIBE STREAMS;": [{"@type": "source_descriptions", "sourceDescriptions": [ORDERS]}],
    "DESCRIBE TABLES;": [{"@type": "source_descriptions", "sourceDescriptions": []}],
    "SHOW FUNCTIONS;": [{"@type": "function_names", "functions": [{"name": "UCASE"}, {"name": "ABS"}]}],
    "SHOW TOPICS;": [{"@type": "kafka_topics", "topics": [{"name": "my-topic", "replicaInfo": [1, 1]}]}],
}
ROWS = [
    {"queryId": "q_1", "columnNames": ["ID", "PRICE"], "columnTypes": ["BIGINT", "DECIMAL(4, 2)"]},
    [1, 10.10],
    [2, None],
]


class FakeServer:
    """Requests that came, and the answers to them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.login: str | None = None  # NAME:PASSWORD that requests must have
        self.closed = threading.Event()
        self.is_endless = False
        self.rows: list[Any] = ROWS
        self.url = ""

    @property
    def server(self) -> Server:
        return Server(self.url)

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                return

            def do_GET(self) -> None:  # the name that the library calls
                outer.answer(self, {})

            def do_POST(self) -> None:  # the same
                outer.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        http.daemon_threads = True
        self.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.closed.set()
            http.shutdown()
            thread.join()
            http.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        self.asked.append((handler.path, body))
        if self.login and handler.headers.get("Authorization") != _basic(self.login):
            self._send(handler, 401, {"@type": "generic_error", "error_code": 40100, "message": "wrong login"})
        elif handler.path == "/info":
            self._send(handler, 200, {"KsqlServerInfo": {"version": "0.29.0", "ksqlServiceId": "tests_"}})
        elif handler.path == "/close-query":
            self.closed.set()
            self._send(handler, 200, {})
        elif handler.path == "/query-stream":
            self._rows(handler, body["sql"])
        elif body["ksql"] in ANSWERS:
            self._send(handler, 200, ANSWERS[body["ksql"]])
        else:
            refused = {"@type": "statement_error", "error_code": 40001, "message": "ORDER does not exist.\nlook again"}
            self._send(handler, 400, {**refused, "statementText": body["ksql"], "entities": ANSWERS["SHOW STREAMS;"]})

    def _rows(self, handler: BaseHTTPRequestHandler, text: str) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        rows = ["rowtime: 1, key: a", "rowtime: 2, key: \x1b[31m"] if text.startswith("PRINT") else self.rows
        for row in rows:
            line = (row if isinstance(row, str) else json.dumps(row)).encode() + b"\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        if self.is_endless:
            self.closed.wait(60)
        handler.wfile.write(b"0\r\n\r\n")

    def _send(self, handler: BaseHTTPRequestHandler, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


def _basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()
