"""Clients of ksqlDB in Python and JavaScript work with `broker-sql server`: over HTTP/1.1, its upgrade, and HTTP/2."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import run
from tests.support import node
from tests.support.broker import QUICK, BrokerProcess
from tests.support.sql_server import SqlServerProcess, running_server

HERE = Path(__file__).parent
RUN_S, INSTALL_S = 120.0, 500.0
KSQL = "ksql==0.10.2"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3 * INSTALL_S)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), QUICK)
    try:
        with running_server(broker.start().bootstrap, tmp_path_factory.mktemp("sql")) as found:
            yield found
    finally:
        broker.close()


def python() -> Path:
    """Return the interpreter of an environment with `ksql`, whose setup.py needs pip and setuptools at its side."""
    requirements = HERE / "ksql_requirements.txt"
    digest = hashlib.sha256(requirements.read_bytes() + KSQL.encode()).hexdigest()

    def make(directory: Path) -> None:
        run([sys.executable, "-m", "venv", directory / "venv"], timeout_s=INSTALL_S)
        pip: list[str | Path] = [directory / "venv" / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps"]
        run([*pip, "-r", requirements], timeout_s=INSTALL_S)
        run([*pip, "--no-build-isolation", KSQL], timeout_s=INSTALL_S)

    return made_once(f"ksql-env-{digest[:16]}", make) / "venv" / "bin" / "python"


def javascript() -> Path:
    names = ("package.json", "package-lock.json", "client.js")
    digest = hashlib.sha256(b"".join((HERE / "node_client" / name).read_bytes() for name in names)).hexdigest()

    def make(directory: Path) -> None:
        for name in names:
            shutil.copy(HERE / "node_client" / name, directory)
        run(["npm", "ci", "--no-audit", "--no-fund"], cwd=directory, timeout_s=INSTALL_S)

    return made_once(f"sql-node-{digest[:16]}", make) / "client.js"


def shown(argv: list[str | Path]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(argv, timeout_s=RUN_S).stdout.splitlines()[-1])
    return found


def test_the_python_client(server: SqlServerProcess) -> None:
    """If this fails, Python programs of ksqlDB cannot run statements, insert rows or read queries."""
    found = shown([python(), HERE / "python_client.py", server.url, "CLICKS"])
    assert found["acks"] == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    assert found["rows"] == [{"ID": 2, "PAGE": "b"}]
    assert (found["columns"], found["lines"]) == (["ID", "PAGE"], [[1, "a"], [2, "b"]])
    # The query has ended by its LIMIT.
    assert found["closed"] is False
    assert found["error"] == 40001
    assert found["version"]


def test_the_javascript_client(server: SqlServerProcess) -> None:
    """If this fails, JavaScript programs of ksqlDB cannot run statements, insert rows or read queries."""
    where = urlsplit(server.url)
    found = shown([node.node(), javascript(), str(where.hostname), str(where.port), "VISITS"])
    assert (found["created"], found["ended"]) == (200, 200)
    assert found["inserted"] == [{"status": "ok", "seq": 0}]
    assert found["pushed"] == [{"ID": 1, "PAGE": "a"}]
    assert found["pulled"] == [{"PAGE": "a", "N": 1}]
    assert "VISITS" in found["streams"]
    assert found["fields"] == ["ID", "PAGE"]
    assert found["error"]["error_code"] == 40001
    assert "NO_SUCH_STREAM" in found["error"]["message"]
