"""Our scenarios under locust's own command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.launch.nodes import free_ports
from broker_cy.client.program import EXIT_UNREACHED, EXIT_USAGE
from broker_cy.launch.processes import Child
from loadgen.command import THRESHOLD_MISSED
from tests.loadgen.run.kit import ENDS_S, ROOT, UNDISTURBED
from tests.support.both_brokers import running
from tests.support.broker import Target
from tests.support.wait import until

LOCUST = (sys.executable, "-m", "locust", "-f", str(ROOT / "loadgen/locustfiles/mixed.py"))
# Below the minute after which locust's processes exit without their master.
REFUSED_S = 40.0
# The thresholds of `mixed` that a busy machine misses; the others are about the data.
LATE = {"Produce p99_ms", "Probe p99_ms", "Probe requests"}
SHORT = ("--warm-up", "0s", "--run-time", "2s", "--rate", "300/s")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running("broker-cy", tmp_path_factory.mktemp("plain")) as target:
        yield target


@contextmanager
def locust(directory: Path, name: str, *options: str) -> Iterator[Child]:
    # The report is as wide as a terminal.
    child = Child([*LOCUST, *options], directory, name, env={"PYTHONPATH": str(ROOT), "COLUMNS": "160"})
    try:
        yield child
    finally:
        child.kill()


def ended(child: Child) -> str:
    """Wait for the end of a good run; return its output."""
    code = child.wait(ENDS_S)
    assert code in (*UNDISTURBED, THRESHOLD_MISSED), child.stdout() + child.stderr()
    missed = re.findall(r"threshold missed: (.*?):", child.stdout())
    assert set(missed) <= LATE, child.stdout() + child.stderr()
    assert "Traceback" not in child.stderr(), child.stderr()
    assert re.search(r"all [0-9,]+ acknowledged records were found", child.stdout()), child.stdout()
    assert f"(exit code {code})" in child.stdout()
    return child.stdout()


def test_a_headless_run(broker: Target, tmp_path: Path) -> None:
    """If this fails, the files for plain locust do not run, or their exit code says nothing."""
    with locust(tmp_path, "locust", "--headless", "--bootstrap", broker.bootstrap, "--users", "9", *SHORT) as child:
        assert "2.0 s" in ended(child)


def at_port() -> tuple[str, ...]:
    """Return options that keep the processes that locust forks apart from those of another test."""
    (port,) = free_ports(1)
    return ("--master-bind-port", str(port), "--master-port", str(port))


@pytest.mark.full
def test_locusts_own_processes(broker: Target, tmp_path: Path) -> None:
    """If this fails, clients are shared by the processes that locust forks, or only one of them has users."""
    options = ("--headless", "--bootstrap", broker.bootstrap, "--processes", "2", *at_port(), *SHORT)
    with locust(tmp_path, "locust", *options) as child:
        assert "generator: 2 workers" in ended(child)


@pytest.mark.full
def test_locusts_own_master_and_worker(broker: Target, tmp_path: Path) -> None:
    """If this fails, our files do not work with an existing locust installation on several hosts."""
    port = str(free_ports(1)[0])
    master = ("--master", "--master-bind-port", port, "--expect-workers", "2", "--bootstrap", broker.bootstrap)
    with ExitStack() as stack:
        conductor = stack.enter_context(locust(tmp_path, "master", "--headless", *master, *SHORT))
        workers = [
            stack.enter_context(locust(tmp_path, f"worker-{n}", "--worker", "--master-port", port)) for n in range(2)
        ]
        assert "generator: 2 workers" in ended(conductor)
        for each in workers:
            assert each.wait(ENDS_S) == 0, each.stderr()


@pytest.mark.full
def test_ctrl_c_gives_the_figures_so_far(broker: Target, tmp_path: Path) -> None:
    """If this fails, an interrupted run has no result, or leaves its topic."""
    options = ("--headless", "--bootstrap", broker.bootstrap, "--warm-up", "0s", "--duration", "600s")
    with locust(tmp_path, "locust", *options) as child:
        until(lambda: re.search(r"KAFKA +Produce +[1-9]", child.stderr() + child.stdout()), "figures", ENDS_S)
        child.send_signal(signal.SIGINT)
        assert "of 600 s" in ended(child)
    assert not [each for each in broker.data_dir.glob("broker-load-*") if not each.name.endswith("-delete")]


@pytest.mark.full
def test_locusts_page_has_our_tabs(broker: Target, tmp_path: Path) -> None:
    """If this fails, plain locust's page only shows latencies measured from the send of a request."""
    port = free_ports(1)[0]
    options = ("--web-host", "127.0.0.1", "--web-port", str(port), "--bootstrap", broker.bootstrap, *SHORT)
    with locust(tmp_path, "locust", *options) as child:
        url = f"http://127.0.0.1:{port}"

        def get(path: str) -> str:
            text: str = urllib.request.urlopen(url + path, timeout=30).read().decode()
            return text

        page = until(lambda: get("/"), "the page", ENDS_S, tolerate=(OSError,))
        assert "Kafka figures" in page
        form = b"user_count=9&spawn_rate=9"
        assert json.loads(urllib.request.urlopen(f"{url}/swarm", form, timeout=30).read())["success"]

        def rows() -> dict[str, str]:
            (found,) = (
                each["data"]
                for each in json.loads(get("/stats/requests"))["extended_stats"]
                if each["key"] == "broker-load-verdict"
            )
            return {row["figure"]: row["value"] for row in found}

        assert "were found" in until(lambda: rows().get("Verification"), "the verdict", ENDS_S)
        assert json.loads(get("/broker-load/result.json"))["seconds"] == 2
        child.send_signal(signal.SIGTERM)
        ended(child)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--rate", "5x"), "--rate: '5x' has the unit 'x' (allowed: /s, /min, /h)"),
        *(
            pytest.param(*each, marks=pytest.mark.full)
            for each in (
                (("--users", "1"), "users: 1 is out of range"),
                (("--host", "http://a"), "--host: 'http://a' has no meaning (allowed: --bootstrap HOST:PORT)"),
                (("--bootstrap", "a:b"), "'a:b' is not an address"),
                (("--rate", "5x", "--processes", "2"), "--rate: '5x'"),
            )
        ),
    ],
)
def test_wrong_options(options: tuple[str, ...], text: str, tmp_path: Path) -> None:
    """If this fails, a typing error starts another run than intended."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [*LOCUST, "--headless", *options, *(at_port() if "--processes" in options else ())]
    # This waits until all processes have closed the pipes: the ones that locust forked also exit.
    run = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, timeout=REFUSED_S)
    assert run.returncode == EXIT_USAGE, run.stderr
    assert f"broker-load: {text}" in run.stderr.decode()
    assert "Traceback" not in run.stderr.decode()


@pytest.mark.full
def test_a_part_of_the_classes_is_refused(tmp_path: Path) -> None:
    """If this fails, a run waits for users that never start, or passes without having begun."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [*LOCUST, "--headless", "EventsUser"]
    run = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, timeout=REFUSED_S)
    assert run.returncode == EXIT_USAGE, run.stderr
    assert "user classes: EventsUser (allowed: all of the scenario's, and no others:" in run.stderr.decode()


@pytest.mark.full
def test_no_cluster(tmp_path: Path) -> None:
    """If this fails, a run with a wrong address passes."""
    with locust(tmp_path, "locust", "--headless", "--bootstrap", "127.0.0.1:1") as child:
        assert child.wait(ENDS_S) == EXIT_UNREACHED
        assert "broker-load: " in child.stderr()
        assert "127.0.0.1:1" in child.stderr()
        assert "Traceback" not in child.stderr()
