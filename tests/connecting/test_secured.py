"""All programs reach a broker with TLS and a login by the same options: an address with settings, a file of Kafka's
clients, or a cluster of the cluster file.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy import __version__
from broker_cy.admin import AdminClient
from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry
from loadgen.command import GENERATOR_LIMIT, GOOD
from tests.support import needs
from tests.support.broker import target_is_kafka
from tests.support.registry import RegistryProcess
from tests.support.sasl_broker import ALICE, PASSWORD, client_jaas, write_properties
from tests.support.tls_broker import TlsBroker

pytestmark = [
    needs.tls,
    pytest.mark.skipif(target_is_kafka(), reason="about our own programs"),
]
TOPIC = "secured"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    found = TlsBroker(tmp_path_factory.mktemp("tls"), {"brokercy.metrics.sample.interval.ms": "1000"})
    try:
        found.start()
        run("broker_cy.cli", "topics", "create", TOPIC, "--bootstrap", found.open_bootstrap)
        yield found
    finally:
        found.close()


def run(module: str, *arguments: str | Path, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Run a program; returns its output, in which the password must not be."""
    argv = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def settings(broker: TlsBroker) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.directory / "authority.pem"),
    }


WAYS = ("settings", "file", "cluster")
# Ways to connect that are tried with programs that take seconds to start.
SLOW_WAYS = (*(pytest.param(each, marks=pytest.mark.full) for each in WAYS[:2]), WAYS[2])


def ways(broker: TlsBroker, directory: Path) -> dict[str, list[str]]:
    """Three ways to select the broker."""
    password = directory / "password"
    password.write_text(PASSWORD)
    by_name = settings(broker) | {"sasl.username": ALICE, "sasl.password.file": str(password)}
    file = directory / "client.properties"
    write_properties(file, settings(broker) | {"sasl.jaas.config": client_jaas("PLAIN", ALICE, PASSWORD)})
    clusters = directory / "clusters.toml"
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in by_name.items()]
    clusters.write_text(f'[clusters.secured]\nbootstrap = "{broker.sasl_bootstrap}"\n' + "".join(lines))
    single = [word for name, value in by_name.items() for word in ("-X", f"{name}={value}")]
    return {
        "settings": ["-b", broker.sasl_bootstrap, *single],
        "file": ["--bootstrap-server", broker.sasl_bootstrap, "--command-config", str(file)],
        "cluster": ["--clusters-file", str(clusters), "--cluster", "secured"],
    }


async def topics_of(entry: ClusterEntry) -> list[str]:
    async with AdminClient(entry.bootstrap, timeout_s=60, login=entry.login, tls=entry.tls) as client:
        return [topic.name for topic in await client.topics.list_all()]


@pytest.mark.parametrize("way", WAYS)
def test_the_command_line(broker: TlsBroker, tmp_path: Path, way: str) -> None:
    """If this fails, `broker-cy` cannot be used with a cluster that has TLS and a login."""
    listed = json.loads(run("broker_cy.cli", "topic", "list", "--json", *ways(broker, tmp_path)[way]))
    assert TOPIC in [each["name"] for each in listed]


@pytest.mark.parametrize("way", WAYS)
def test_stream_processing(broker: TlsBroker, tmp_path: Path, way: str) -> None:
    """If this fails, `broker-streams reset` cannot be used with a cluster that has TLS and a login."""
    options = ("--input-topics", TOPIC, "--dry-run", "--json", "--state-dir", tmp_path)
    plan = json.loads(run("broker_streams", "reset", "nobody", *options, *ways(broker, tmp_path)[way]))
    assert {each["topic"] for each in plan["offsets"]} == {TOPIC}


def test_a_cluster_of_the_environment(broker: TlsBroker, tmp_path: Path) -> None:
    """If this fails, a shell cannot select a secured cluster once for all commands."""
    ways(broker, tmp_path)
    where = {"BROKER_CY_CLUSTERS": str(tmp_path / "clusters.toml"), "BROKER_CY_CLUSTER": "secured"}
    assert TOPIC in run("broker_cy.cli", "topics", "list", env=where)


@pytest.mark.parametrize("way", WAYS)
def test_the_terminal(broker: TlsBroker, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, `broker-tui` cannot show a cluster with TLS and a login, or shows commands that cannot."""
    from admin_tui import cli

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    chosen = ways(broker, tmp_path)[way]
    console = cli.build(cli.parser().parse_args(chosen))
    assert TOPIC in asyncio.run(topics_of(console.session.entry))
    # The command that a plan shows has the same login.
    shown = console.command("topics", "list")
    assert PASSWORD not in shown
    assert ("--command-config" in shown, "-X" in shown) == (way == "file", way == "settings")


@pytest.mark.parametrize("way", WAYS)
def test_the_dashboard(broker: TlsBroker, tmp_path: Path, way: str) -> None:
    """If this fails, `broker-dash` cannot show a cluster with TLS and a login."""
    import click

    from dashboard.cli import command, find_entries

    given = command.make_context("broker-dash", list(ways(broker, tmp_path)[way]), resilient_parsing=False).params
    assert isinstance(command, click.Group)
    ((entry,), are_named) = find_entries(options.wanted({**given, "cluster": None}), given["cluster"])
    assert are_named == (way == "cluster")
    assert TOPIC in asyncio.run(topics_of(entry))


SCENARIO = """
duration = "1s"
warm_up = "0s"
[topic]
name = "NAME"
partitions = 1
[[users]]
kind = "producer"
count = 1
rate = "50/s"
"""


@pytest.mark.parametrize("way", SLOW_WAYS)
def test_the_load_generator(broker: TlsBroker, tmp_path: Path, way: str) -> None:
    """If this fails, `broker-load` cannot load a cluster with TLS and a login, in this process or in workers."""
    scenario, result = tmp_path / "scenario.toml", tmp_path / "result.json"
    scenario.write_text(SCENARIO.replace("NAME", f"load-{way}"))
    processes = "2" if way == "settings" else "1"
    argv = ["run", *ways(broker, tmp_path)[way], "--scenario", scenario, "--quiet", "--json-file", result]
    done = subprocess.run(
        [sys.executable, "-m", "loadgen", *map(str, argv), "--processes", processes, "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
    )
    # The machine may be busy.
    assert done.returncode in (GOOD, GENERATOR_LIMIT), done.stdout + done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads(result.read_text())
    assert (printed["operations"]["Produce"]["failures"], printed["exit_code"]) == (0, done.returncode)
    assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_the_analytics(broker: TlsBroker, tmp_path: Path, way: str) -> None:
    """If this fails, `broker-analytics` cannot read the samples of a cluster with TLS and a login."""
    argv: list[str | Path] = ["ingest", *ways(broker, tmp_path)[way], "--lake", tmp_path / "lake", "--json"]
    done = json.loads(run("spark_analytics", *argv))
    assert done["records"] > 0
    assert (done["cluster"] == "secured") == (way == "cluster")


@pytest.mark.parametrize("way", SLOW_WAYS)
def test_the_benchmark(broker: TlsBroker, tmp_path: Path, way: str) -> None:
    """If this fails, `broker-bench` cannot measure a cluster with TLS and a login, or reports its password."""
    result = tmp_path / "result.json"
    argv: list[str | Path] = ["run", "-w", "produce-1kb", *ways(broker, tmp_path)[way], "--json-file", result, "--json"]
    times = ("--duration", "300ms", "--warm-up", "0s", "--steady", "0s", "--dir", tmp_path / "data")
    document = json.loads(run("bench", *argv, *times))
    assert document == json.loads(result.read_text())
    (measured,) = document["runs"]
    assert not measured["failed"]
    assert measured["figures"]["records_per_s"] > 0
    assert list(document["targets"]) == ["secured" if way == "cluster" else broker.sasl_bootstrap]
    assert PASSWORD not in result.read_text()


@pytest.mark.parametrize("way", SLOW_WAYS)
def test_the_registry(broker: TlsBroker, tmp_path: Path, way: str) -> None:
    """If this fails, `broker-registry` cannot keep its schemas in a cluster with TLS and a login."""
    registry = RegistryProcess("", tmp_path, [*ways(broker, tmp_path)[way], "--topic", f"_schemas-{way}"])
    try:
        assert registry.wait().get("/subjects") == []
        registry.stop()
    finally:
        registry.kill()


@pytest.mark.parametrize(
    ("module", "argv"),
    [
        ("broker_cy.cli", ["topics", "list"]),
        ("loadgen", ["run", "--quiet"]),
        ("spark_analytics", ["ingest", "--lake", "lake"]),
        ("bench", ["run", "-w", "produce-1kb"]),
        ("broker_registry", ["--listen", "127.0.0.1:0"]),
        ("broker_mirror", ["promote", "--topic", "t", "--source", "127.0.0.1:1", "--dry-run"]),
    ],
)
def test_an_unreachable_broker_has_one_wording(module: str, argv: list[str], tmp_path: Path) -> None:
    """If this fails, a script has to know each program to recognize that a broker is away."""
    where = ["--bootstrap", "127.0.0.1:1"]
    words = "connect, broker 127.0.0.1:1: connection refused: no process listens there\n"
    assert run(module, *argv, *where, code=3).endswith(words)
    # The benchmark shows its progress before.
    error = json.loads(run(module, *argv, *where, "--json", code=3).splitlines()[-1])["error"]
    assert error["failure"] == "unreachable"
    assert "connection refused: no process listens there" in error["reason"]


@pytest.mark.parametrize(
    ("module", "words"), [("broker_cy.cli", ["topics", "list"]), ("bench", ["report", "x"]), ("broker_registry", [])]
)
def test_a_wrong_option_has_one_form(module: str, words: list[str]) -> None:
    """If this fails, the lines of errors begin with the name of the program in some programs only."""
    usage, *_, reason = run(module, *words, "--html", "y", "--nope", code=2).splitlines()
    assert usage.lower().startswith("usage: broker-")
    program, _, text = reason.partition(": ")
    assert (program, "--" in text) == (usage.split()[1], True)


@pytest.mark.parametrize(
    "module",
    [
        "broker_cy.cli",
        "admin_tui",
        "dashboard",
        "loadgen",
        "spark_analytics",
        "bench",
        "broker_registry",
        "broker_mirror",
    ],
)
def test_every_program_has_a_version(module: str) -> None:
    """If this fails, a user cannot say which version has a fault."""
    assert run(module, "--version").split()[1] == __version__
