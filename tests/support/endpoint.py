"""A real HTTP server that receives alerts, and fails, hangs or answers as a test requires."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT_S = 60.0


class Endpoint(ThreadingHTTPServer):
    """Records the requests that it answers with 200. `answers` are the next statuses (0: no response, -1: closes at
    once); then 200.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.received: list[tuple[str, dict[str, str], Any]] = []
        self.answers: list[int] = []
        self.released = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/alerts?key=1"

    @property
    def payloads(self) -> list[Any]:
        return [payload for _, _, payload in self.received]

    def close(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        status = self.server.answers.pop(0) if self.server.answers else 200
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if status == 0:
            self.server.released.wait(WAIT_S)
            return
        if status < 0:
            return
        if status == 200:
            self.server.received.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""
