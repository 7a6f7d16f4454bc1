"""A session from its begin to its end: in the editor, or of the texts of the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rich.console import Console
from rich.text import Text

from broker_cy.client.errors import ClientError
from broker_cy.client.program import EXIT_INTERRUPTED, EXIT_USAGE, error_fields, exit_code_of
from broker_cy.reporting.foreign_text import escaped
from broker_sql.client import Refused, SqlClient
from broker_sql.errors import ParseError, SqlError
from broker_sql.terminal.editor import Editor, command_of
from broker_sql.terminal.highlight import marked
from broker_sql.terminal.names import ServerNames
from broker_sql.terminal.output import JsonOutput, TextOutput
from broker_sql.terminal.session import Session

PROGRAM: Final = "broker-sql"
HELP: Final = """\
A semicolon and Enter run a statement; Ctrl-C ends a query; Tab completes; Up shows earlier statements.
  SHOW STREAMS; SHOW TABLES; SHOW TOPICS; SHOW QUERIES; SHOW FUNCTIONS; DESCRIBE name;
  SET 'auto.offset.reset'='earliest';      queries of this session read topics from their begin
  SELECT * FROM name EMIT CHANGES;         rows while they come
  PREVIEW 20 CREATE TABLE t AS SELECT ...; rows of a query for the last 20 records, before it is created
  PRINT 'topic' FROM BEGINNING LIMIT 5;    records of a topic
  RUN SCRIPT 'file.sql';                   statements of a file
  output json, output table, help, exit    commands of the editor
The statements: docs/sql.md."""


class Terminal:
    """A session with its output. Errors go to the standard error."""

    def __init__(self, client: SqlClient, *, as_json: bool) -> None:
        self._client = client
        self._errors = Console(stderr=True, highlight=False, soft_wrap=True)
        self.session = Session(client, self._output(as_json=as_json))
        self._is_json = as_json

    def _output(self, *, as_json: bool) -> TextOutput | JsonOutput:
        def close(query_id: str) -> None:
            with suppress(ClientError):  # the connection ends the query, too
                self._client.close_query(query_id)

        return JsonOutput(close) if as_json else TextOutput(Console(highlight=False), close)

    def run(self, text: str) -> int:
        """Run the statements of a text up to the first error, which is reported. Returns the exit code."""
        try:
            self.session.run(text)
        except SqlError as error:
            self._report_text(error, text)
            return EXIT_USAGE
        except ClientError as error:
            self._report(error)
            return exit_code_of(error)
        except KeyboardInterrupt:
            self._errors.print("interrupted", style="dim")
            return EXIT_INTERRUPTED
        return 0

    def _report_text(self, error: SqlError, text: str) -> None:
        if self._is_json:
            place = error.location
            fields: dict[str, object] = {"failure": "invalid", "reason": error.message}
            fields |= {"line": place.line, "column": place.column} if place else {}
            print(json.dumps({"error": fields}, ensure_ascii=False), file=sys.stderr)
            return
        mark = marked(text, error) if isinstance(error, ParseError) else ""
        for line in mark.split("\n") if mark else ():
            self._errors.print(Text(escaped(line)))
        self._errors.print(Text(escaped(str(error)), style="red"))

    def _report(self, error: ClientError) -> None:
        if self._is_json:
            print(json.dumps({"error": error_fields(error)}, ensure_ascii=False), file=sys.stderr)
            return
        text = error.reason if isinstance(error, Refused) else str(error)
        self._errors.print(Text("\n".join(escaped(line) for line in text.split("\n")), style="red"))

    def edit(self, make: Callable[[ServerNames], Editor]) -> int:
        """Run texts of the editor until its end."""
        names = ServerNames(self._client)
        editor = make(names)
        about = self._client.info()
        note = f"{about.get('ksqlServiceId') or self._client.server.url} at {self._client.server.url}"
        self.session.output.note(f"connected to {note}, version {about.get('version')}; help shows the commands")
        while True:
            try:
                text = editor.read()
            except EOFError:
                return 0
            except KeyboardInterrupt:
                continue
            command = command_of(text)
            if command in ("exit", "quit"):
                return 0
            if command == "help":
                print(HELP)
            elif command is not None:
                self._is_json = command == "output json"
                self.session.output = self._output(as_json=self._is_json)
            else:
                self.run(text)
                names.forget()
