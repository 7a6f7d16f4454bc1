"""A server of SQL, `broker-sql server`, over a broker of this project: `python -m bench.studies.sql --help`.

`statement_ms` is the time of a CREATE TABLE ... AS SELECT until its answer, and `first_row_ms` until the table has rows
of a topic that exists. Pull queries ask for one key of KEYS each, one after the other on a connection; `pulls_a_core`
are those for each CPU second of the server. The memory is that of the whole server.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.launch.nodes import BrokerCy, Node
from bench.measuring import proc
from bench.studies.goals import Figures, Goals, check, measure, parser
from bench.targets.brokers import TargetError

PROGRAM: Final = "bench.studies.sql"
PARTS: Final = ("statement", "pulls", "queries")
KEYS: Final = 1_000
STATEMENTS: Final = 20
ROWS_S_MAX: Final = 60.0
GOALS: Final = Goals(
    at_least={"pulls_a_core": 5_000.0},
    at_most={"statement_ms": 100.0, "pull_p99_ms": 5.0, "resident_mb": 1_500.0},
)
_EARLIEST: Final = {"auto.offset.reset": "earliest"}


class SqlServer(Node):
    """`broker-sql server`, as installed for this interpreter."""

    name = "broker-sql"

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.cluster = bootstrap

    def command(self) -> Sequence[str | Path]:
        at = ["--bootstrap", self.cluster, "--listen", f"{self.host}:{self.port}"]
        return [sys.executable, "-m", "broker_sql", "server", "--state-dir", self.directory / "state", *at]


class Client:
    """One connection to a server."""

    def __init__(self, server: SqlServer) -> None:
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=ROWS_S_MAX)

    def call(self, path: str, body: bytes) -> bytes:
        """Raises TargetError: the answer is an error."""
        self._connection.request("POST", path, body)
        answer = self._connection.getresponse()
        found = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise TargetError(f"{path} answered {answer.status}: {found[:500]!r}")
        return found

    def run(self, text: str, **properties: Any) -> None:
        self.call("/ksql", json.dumps({"ksql": text, "streamsProperties": properties or _EARLIEST}).encode())

    def rows(self, text: str) -> int:
        return self.call("/query-stream", json.dumps({"sql": text}).encode()).count(b"\n") - 1

    def wait_for(self, table: str) -> None:
        """Wait until a table has a row of each key. Raises TargetError."""
        until_s = time.perf_counter() + ROWS_S_MAX
        while self.rows(f"SELECT * FROM {table};") < KEYS:
            if time.perf_counter() > until_s:
                raise TargetError(f"{table} has no {KEYS} rows after {ROWS_S_MAX:g} s")
            time.sleep(0.01)


@contextlib.contextmanager
def running(place: Path) -> Iterator[tuple[SqlServer, Client]]:
    """A broker and a server with the stream `orders`, which has a record of each key."""
    with contextlib.ExitStack() as stack:
        broker = BrokerCy(place / "broker", {})
        stack.callback(broker.close)
        broker.start()
        server = SqlServer(place / "sql", broker.bootstrap)
        stack.callback(server.close)
        server.start()
        client = Client(server)
        columns = "(id STRING KEY, v INT)"
        client.run(f"CREATE STREAM orders {columns} WITH (kafka_topic='orders', value_format='JSON', partitions=1);")
        lines = [json.dumps({"id": f"k{at}", "v": at}) for at in range(KEYS)]
        client.call("/inserts-stream", "\n".join(['{"target":"orders"}', *lines]).encode())
        yield server, client


class Study:
    def __init__(self, place: Path, given: argparse.Namespace) -> None:
        self._place, self._given = place, given

    def statement(self) -> Figures:
        answers: list[float] = []
        rows: list[float] = []
        with running(self._place / "statement") as (_, client):
            for at in range(STATEMENTS):
                begun_s = time.perf_counter()
                client.run(f"CREATE TABLE t{at} AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;")
                answers.append((time.perf_counter() - begun_s) * 1000)
                client.wait_for(f"t{at}")
                rows.append((time.perf_counter() - begun_s) * 1000)
                client.run("TERMINATE ALL;")
        return {"statement_ms": answers, "first_row_ms": rows}

    def pulls(self) -> Figures:
        with running(self._place / "pulls") as (server, client):
            client.run("CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;")
            client.wait_for("t")
            bodies = [json.dumps({"sql": f"SELECT * FROM t WHERE id = 'k{at}';"}).encode() for at in range(KEYS)]
            for body in bodies:
                client.call("/query-stream", body)
            before, begun_s = proc.usage(server.pid), time.perf_counter()
            times_ms: list[float] = []
            for at in range(self._given.pulls):
                sent_s = time.perf_counter()
                client.call("/query-stream", bodies[at % KEYS])
                times_ms.append((time.perf_counter() - sent_s) * 1000)
            lasted_s = time.perf_counter() - begun_s
            cpu_s = max((proc.usage(server.pid) - before).cpu_s, proc.TICK_S)
        times_ms.sort()
        return {
            "pulls_per_s": len(times_ms) / lasted_s,
            "pulls_a_core": len(times_ms) / cpu_s,
            "pull_p50_ms": times_ms[len(times_ms) // 2],
            "pull_p99_ms": times_ms[len(times_ms) * 99 // 100],
        }

    def queries(self) -> Figures:
        with running(self._place / "queries") as (server, client):
            empty = proc.resident_bytes(server.pid)
            for at in range(self._given.queries):
                client.run(f"CREATE TABLE t{at} AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;")
            for at in range(self._given.queries):
                client.wait_for(f"t{at}")
            resident = proc.resident_bytes(server.pid)
        return {"empty_mb": empty / (1 << 20), "resident_mb": resident / (1 << 20)}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    made = parser(PROGRAM, __doc__, PARTS)
    shown = " (default: %(default)s)"
    made.add_argument("--pulls", type=int, default=5_000, help=f"pull queries that are measured{shown}")
    made.add_argument("--queries", type=int, default=50, help=f"persistent queries at the same time{shown}")
    given = made.parse_args(argv)
    check(made, given, PARTS, ("pulls", "queries"))
    with tempfile.TemporaryDirectory(prefix="sql-study-") as place:
        study = Study(Path(place), given)
        return measure(PROGRAM, given, GOALS, lambda part: getattr(study, part)())


if __name__ == "__main__":
    sys.exit(main())
