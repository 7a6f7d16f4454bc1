"""Calls from Spark's Python processes on the driver's machine to the driver, over a Unix socket.

Spark runs the reader's plans and the writer's commits in processes of their own, some for one call only. They connect
quickly and import little; what they ask is answered by the driver, which has the connections to the brokers. The socket
is in a directory that only the user may enter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any


class LinkError(RuntimeError):
    """The driver refuses a call, or is gone."""


class Link:
    """One connection: `link.call("query", "commit", 7, [])`."""

    def __init__(self, path: str) -> None:
        """Raises LinkError: no driver listens there."""
        try:
            self._connection = Client(path, "AF_UNIX")
        except OSError as error:
            raise LinkError(f"the driver does not listen on {path}: {error}") from None

    def call(self, *words: Any) -> Any:
        """Raises LinkError, with the text of the driver's error."""
        try:
            self._connection.send(words)
            is_done, found = self._connection.recv()
        except (OSError, EOFError) as error:
            raise LinkError(f"the driver is gone: {error or 'it closed the connection'}") from None
        if not is_done:
            raise LinkError(found)
        return found


class LinkServer:
    """Answers the calls of all connections with `answer`, which is called in a thread of each connection."""

    def __init__(self, directory: Path, answer: Callable[..., Any]) -> None:
        self.path = str(directory / "driver.sock")
        self._answer = answer
        self._listener = Listener(self.path, "AF_UNIX", backlog=64)
        self._connections: set[Connection[Any, Any]] = set()
        threading.Thread(target=self._accept, name="streams-link", daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for each in list(self._connections):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except (OSError, EOFError):
                return
            self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="streams-link", daemon=True).start()

    def _serve(self, connection: Connection[Any, Any]) -> None:
        try:
            while True:
                words = connection.recv()
                try:
                    answer = (True, self._answer(*words))
                except Exception as error:
                    answer = (False, f"{type(error).__name__}: {error}")
                connection.send(answer)
        except (OSError, EOFError, TypeError):
            # TypeError: the server was closed while a thread waited for a call.
            return
        finally:
            self._connections.discard(connection)
            connection.close()
