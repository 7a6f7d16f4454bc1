"""Runs every command of an installed wheel outside of the repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from bench.launch.nodes import BrokerCy
from broker_cy.commands.app import COMMANDS
from broker_cy.launch.processes import die_with_parent, run
from tests.support.broker import QUICK
from tests.support.dashboard import running_dashboard
from tests.support.terminal import in_terminal
from tests.support.wait import until

# One command line of each command of `broker-cy`, in an order in which they work, and its standard input.
LINES: tuple[tuple[str, bytes], ...] = (
    ("topics create orders -p 2", b""),
    ("produce orders -K :", b"a:1\nb:2\n"),
    ("consume orders -e", b""),
    ("topics describe orders", b""),
    ("configs describe topic orders --all", b""),
    ("quotas set --user default producer_byte_rate=1G --yes", b""),
    ("quotas explain --user alice", b""),
    ("cluster describe", b""),
    ("quorum show", b""),
    ("brokers list", b""),
    ("reassign status", b""),
    ("reassign plan --replication-factor 1 --topic orders", b""),
    ("leaders elect --preferred --yes", b""),
    ("groups list", b""),
    ("lag", b""),
    ("acls explain alice read topic:orders --no-acls", b""),
    ("users list", b""),
    ("transactions list", b""),
    ("producers orders", b""),
    ("log-dirs --replicas", b""),
    ("tokens list --help", b""),
    ("events", b""),
    ("alerts --json", b""),
    ("metrics --json", b""),
    ("records delete orders --before end --yes", b""),
    ("clusters list", b""),
    ("schemas list --help", b""),
    ("completion bash", b""),
    ("storage random-uuid", b""),
    ("storage version-mapping --release-version 4.2", b""),
    ("storage feature-dependencies --feature kraft.version=1", b""),
)
# These need no broker.
ALONE = {"clusters", "completion", "schemas", "storage"}
# These use every library of the extra: numpy for intervals, hdrhistogram for the files, and confluent-kafka
# for the load of real clients.
MEASURED = ("produce-1kb", "client-produce-1kb")


class Installed(BrokerCy):
    """A broker started by the command of an environment."""

    def __init__(self, directory: Path, program: Path) -> None:
        super().__init__(directory, QUICK)
        self.program = program

    def command(self) -> Sequence[str | Path]:
        return [self.program, *list(super().command())[1:]]


def environment_variables(directory: Path) -> dict[str, str]:
    """Variables for programs that must find neither the repository nor the user's configuration."""
    return {"PYTHONPATH": "", "XDG_CONFIG_HOME": str(directory / "config"), "BROKER_CY_CLUSTERS": ""}


def run_broker_cy(program: Path, directory: Path) -> None:
    """Run `broker-cy start`, and each other command against that broker; the consumed records are those produced."""
    env = environment_variables(directory)
    assert {line.split()[0] for line, _ in LINES} | {"start"} == set(COMMANDS)
    assert run([program, "--version"], cwd=directory, env=env).stdout.startswith(b"broker-cy ")
    broker = Installed(directory / "broker", program)
    try:
        broker.start()
        said = {}
        for line, stdin in LINES:
            words = line.split()
            if words[0] not in ALONE:
                words += ["--bootstrap", broker.bootstrap]
            said[line] = run([program, *words], stdin=stdin, cwd=directory, env=env).stdout
        assert sorted(said["consume orders -e"].split()) == [b"1", b"2"]
        assert broker.stop() == 0
    finally:
        broker.close()


def run_broker_tui(program: Path, directory: Path, broker_cy: Path) -> None:
    """`broker-tui` draws its first screen, and quits when asked to."""
    broker = Installed(directory / "broker-of-tui", broker_cy)
    try:
        broker.start()
        shown = in_terminal(
            [program, "--bootstrap", broker.bootstrap],
            typed_at={"connected": b"\x11"},
            cwd=directory,
            env=environment_variables(directory),
        )
    finally:
        broker.close()
    assert shown.code == 0, shown.screen


def run_broker_dash(program: Path, directory: Path, broker_cy: Path) -> None:
    """`broker-dash` serves the page of the overview with its scripts and the libraries of its charts and tables."""
    broker = Installed(directory / "broker-of-dash", broker_cy)
    try:
        broker.start()
        options = ["--bootstrap", broker.bootstrap, "--state", str(directory / "dash")]
        env = environment_variables(directory)
        with running_dashboard(options, command=[program], env=env, cwd=directory) as url:
            page = urlopen(url, timeout=30).read().decode()
            scripts = re.findall(r'<script src="([^"]+)"', page)
            assert any("/assets/live.js" in each for each in scripts)
            for path in (*scripts, "/assets/vendor/plotly-cartesian.min.js", "/assets/vendor/ag-grid-community.min.js"):
                assert len(urlopen(url.rstrip("/") + path, timeout=30).read()) > 300, path
    finally:
        broker.close()


STREAMS_APPLICATION = """
from broker_streams import STRING, StreamsBuilder

builder = StreamsBuilder()
orders = builder.stream("orders", key=STRING, value=STRING)
orders.group_by_key().count().to_stream().map_values("{} orders".format).to("counts", key=STRING, value=STRING)
config = {"application.id": "counts"}
"""


def run_broker_streams(program: Path, directory: Path, broker_cy: Path) -> None:
    """`broker-streams` describes and runs an application, whose results a consumer reads."""
    file = directory / "counts.py"
    file.write_text(STREAMS_APPLICATION)
    env = environment_variables(directory)
    shown = run([program, "describe", file], cwd=directory, env=env).stdout.decode()
    assert shown.startswith("Topologies:")
    assert "counts" in run([program, "describe", file, "--lineage"], cwd=directory, env=env).stdout.decode()
    broker = Installed(directory / "broker-of-streams", broker_cy)
    try:
        broker.start()
        with_broker = env | {"BROKER_CY_BOOTSTRAP": broker.bootstrap}

        def ask(line: str, stdin: bytes = b"") -> str:
            return run([broker_cy, *line.split()], cwd=directory, env=with_broker, stdin=stdin).stdout.decode()

        for topic in ("orders", "counts"):
            ask(f"topics create {topic}")
        ask("produce orders -K :", b"ann:tea\nann:milk\n")
        words = ["run", str(file), "--host", "embedded", "-X", f"state.dir={directory / 'state'}"]
        argv = die_with_parent([str(program), *words])
        application = subprocess.Popen(argv, cwd=directory, env=os.environ | with_broker)
        try:
            until(lambda: "2 orders" in ask("consume counts -e"), "the counts", 60.0, 0.5)
        finally:
            application.terminate()
            assert application.wait(60.0) == 0
    finally:
        broker.close()


def run_broker_bench(program: Path, directory: Path) -> None:
    """`broker-bench` starts the broker of its environment, measures it with both kinds of load and writes its files."""
    env = environment_variables(directory)
    for name in MEASURED:
        result = directory / f"{name}.json"
        argv: list[str | Path] = [
            program,
            "run",
            "-w",
            name,
            "-t",
            "ours",
            "--duration",
            "300 ms",
            "--warm-up",
            "100 ms",
            "--steady",
            "0 s",
        ]
        argv += ["--json-file", result, "--html", directory / f"{name}.html", "--dir", directory / "bench"]
        run(argv, cwd=directory, env=env, timeout_s=240)
        assert json.loads(result.read_text())
        assert "plotly" in (directory / f"{name}.html").read_text().lower()
