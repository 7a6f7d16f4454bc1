"""The command `broker-load`: default ports of addresses, and the exit code if a report cannot be written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from broker_cy.client.program import EXIT_FAILED
from loadgen import cli
from loadgen.command import DATA_WRONG
from loadgen.report.result import Result
from tests.support.load_results import bad, good


def replace_module(monkeypatch: pytest.MonkeyPatch, name: str, **functions: Any) -> None:
    """Have `name` imported as these functions: the modules themselves would load gevent into the tests' process."""
    module = ModuleType(name)
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["worker", "--master", "10.0.0.1"], ("10.0.0.1", cli.MASTER_PORT)),
        (["worker", "--master", "[::1]"], ("::1", cli.MASTER_PORT)),
        (["worker", "--master", "[::1]:7"], ("::1", 7)),
        (["master", "--workers", "1", "--listen", "10.0.0.1"], ("10.0.0.1", cli.MASTER_PORT)),
        (["web", "--listen", "[::1]"], ("::1", cli.WEB_PORT)),
    ],
)
def test_an_address_without_a_port_has_the_port_of_its_option(
    arguments: list[str], expected: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, workers wait at Kafka's port for a master that listens on its own."""
    found: list[Any] = []

    def run_headless(*_: Any, listen: Any, **__: Any) -> None:
        found.append(listen)
        raise SystemExit

    def serve(scenario: Any, bootstrap: Any, address: Any, **_: Any) -> None:
        found.append(address)

    replace_module(monkeypatch, "loadgen.headless", run_worker=found.append, run_headless=run_headless)
    replace_module(monkeypatch, "loadgen.web.server", serve=serve)
    with suppress(SystemExit):
        cli.command(arguments)
    assert found == [expected]


@pytest.mark.parametrize(("run", "code"), [(good, EXIT_FAILED), (bad, DATA_WRONG)])
def test_a_report_that_cannot_be_written_hides_no_verdict(
    run: Callable[[], Result], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a pipeline mistakes lost records for a wrong option."""
    options = {"json_file_path": tmp_path, "html_path": None, "junit_path": None, "as_json": False}
    assert cli._write(run(), options) == code
    assert "--json-file: " in capsys.readouterr().err
