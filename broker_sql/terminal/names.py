"""The names that a server knows, asked when they are needed, and again after statements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker_cy.client.errors import ClientError
from broker_sql.client import Settings, SqlClient
from broker_sql.terminal.completion import Source
from broker_sql.terminal.shown import type_text

LISTS: Final = {
    "functions": ("SHOW FUNCTIONS;", "functions"),
    "topics": ("SHOW TOPICS;", "topics"),
    "queries": ("SHOW QUERIES;", "queries"),
    "connectors": ("SHOW CONNECTORS;", "connectors"),
}


class ServerNames:
    """Names, as completion asks for them. There are none if the server does not answer."""

    def __init__(self, client: SqlClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._kept: dict[str, Any] = {}

    def forget(self) -> None:
        """Ask again, because a statement was run."""
        with self._lock:
            functions = self._kept.get("functions")
            self._kept = {"functions": functions} if functions else {}

    def sources(self) -> Sequence[Source]:
        found: Sequence[Source] = self._once("sources", self._ask_sources)
        return found

    def types(self) -> Sequence[str]:
        found: Sequence[str] = self._once("types", lambda: sorted(self._ask("SHOW TYPES;")["types"]))
        return found

    def functions(self) -> Sequence[str]:
        return self._list("functions")

    def topics(self) -> Sequence[str]:
        return self._list("topics")

    def queries(self) -> Sequence[str]:
        return self._list("queries", "id")

    def connectors(self) -> Sequence[str]:
        return self._list("connectors")

    def _list(self, name: str, member: str = "name") -> Sequence[str]:
        statement, field = LISTS[name]
        found: Sequence[str] = self._once(name, lambda: [each[member] for each in self._ask(statement)[field]])
        return found

    def _once(self, name: str, ask: Callable[[], Any]) -> Any:
        with self._lock:
            if name not in self._kept:
                try:
                    self._kept[name] = ask()
                except (ClientError, KeyError, TypeError, IndexError):
                    self._kept[name] = []
            return self._kept[name]

    def _ask(self, statement: str) -> dict[str, Any]:
        return self._client.execute(statement, Settings())[0]

    def _ask_sources(self) -> list[Source]:
        found = []
        for statement in ("DESCRIBE STREAMS;", "DESCRIBE TABLES;"):
            for each in self._ask(statement)["sourceDescriptions"]:
                columns = tuple((field["name"], type_text(field["schema"])) for field in each["fields"])
                found.append(Source(each["name"], str(each["type"]).lower(), columns))
        return found
