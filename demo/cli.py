"""The demo: its arguments, and starting, supervising and stopping its processes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from broker_cy.admin import ClientError
from broker_cy.client.address import Address, parse_address
from broker_cy.launch.signals import interruptible
from demo.nodes import CONTROLLERS_AFTER, NODES_MAX, NODES_MIN, Node, free_ports, one_broker, several_nodes, start_all
from demo.packages import packages
from demo.processes import Dashboard, DemoError, Process, stop_all
from demo.setup import create_topics
from demo.supervision import KILL_EVERY_S, RESTART_AFTER_S, Crashes, Outages, supervise
from demo.topics import APPLICATION, CRASHING, GROUPS, HEARTBEATS, PRODUCERS, QUICK, SECTIONS, SLOW, TOPICS

DESCRIPTION = """\
Runs a broker with a workload until Ctrl-C: three producers write the packages that are installed on this machine, and
two groups and an application of broker-streams read them. One group is too slow; a member of the other one crashes now
and then. With several nodes, one of them is killed now and then, too."""

EXAMPLES = """\
examples:
  make demo
  make demo ARGS="--nodes 3"                           three nodes; one of them is killed now and then
  make demo ARGS="--listener 127.0.0.1:0"              use a free port
  make demo ARGS="--dir ./demo-data --rate 10"         keep the data, and write ten times as many records
"""
PORT_MAX = 65_535


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m demo",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="directory for data and logs; a temporary directory by default",
    )
    top.add_argument(
        "--nodes",
        metavar="N",
        type=_nodes_count,
        default=1,
        help=f"brokers that are controllers as well: 1, or {NODES_MIN} to {NODES_MAX}; default %(default)s",
    )
    top.add_argument(
        "--kill-every",
        metavar="S",
        type=_positive,
        help=f"with several nodes: time between two kills of a node; default {KILL_EVERY_S:g} s",
    )
    top.add_argument(
        "--restart-after",
        metavar="S",
        type=_positive,
        help=f"time until it is restarted; default {RESTART_AFTER_S:g} s",
    )
    top.add_argument(
        "--listener",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        help="address of the broker; default %(default)s; port 0 selects a free port; further nodes have the next ones",
    )
    top.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        default="127.0.0.1:9404",
        help="address of the metrics; default %(default)s; empty for none; further nodes have the next ones",
    )
    top.add_argument(
        "--dashboard",
        metavar="HOST:PORT",
        default="127.0.0.1:8050",
        help="address of the web dashboard; default %(default)s; port 0 selects a free port; empty for none",
    )
    top.add_argument("--rate", metavar="FACTOR", type=_positive, default=1.0, help="multiplies the usual 230 records/s")
    top.add_argument(
        "--crash-every",
        metavar="S",
        type=_positive,
        default=45.0,
        help="time between two crashes of a member; default %(default)g s",
    )
    top.add_argument(
        "--back-after",
        metavar="S",
        type=_positive,
        default=15.0,
        help="time until it is restarted; default %(default)g s",
    )
    top.add_argument(
        "--session-timeout",
        metavar="S",
        type=_positive,
        default=6.0,
        help="session timeout of members; default %(default)g s",
    )
    top.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="set a broker setting; may be repeated",
    )
    return top


def _nodes_count(text: str) -> int:
    allowed = f"1, or {NODES_MIN} to {NODES_MAX}"
    if text == "2":
        raise argparse.ArgumentTypeError(f"'2': two nodes stop when one of them is killed; allowed are {allowed}")
    if not (text.isascii() and text.isdecimal()) or int(text) not in (1, *range(NODES_MIN, NODES_MAX + 1)):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {allowed}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: a number above 0 is expected")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    top = parser()
    given = top.parse_args(argv)
    _check(top, given)
    stop = threading.Event()
    with interruptible(stop.set), _directory(given.dir) as directory:
        nodes: list[Node] = []
        clients: dict[str, Process] = {}
        try:
            nodes = _nodes(directory, given)
            start_all(nodes, stop)
            bootstrap = ",".join(node.address for node in nodes)
            asyncio.run(create_topics(bootstrap, given.nodes))
            clients = _clients(bootstrap, directory, given.rate, _ms(given.session_timeout))
            for each in clients.values():
                each.start()
            page = ""
            if given.dashboard:
                dashboard = Dashboard(directory, given.dashboard, bootstrap)
                clients["dashboard"] = dashboard
                page = dashboard.start_at(stop)
            _announce(nodes, bootstrap, directory, given, page)
            _live(nodes, bootstrap, clients, given, stop)
        except (DemoError, ClientError) as error:
            if not stop.is_set():
                print(f"demo: {error}", file=sys.stderr)
                return 1
        finally:
            # The clients stop first: members leave their groups, and producers end their transactions.
            stop_all(list(clients.values()))
            stop_all(nodes)
    print("demo: stopped", flush=True)
    return 0


def _check(top: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Exit with a usage error if options conflict."""
    if given.nodes == 1:
        for name in ("kill_every", "restart_after"):
            if getattr(given, name) is not None:
                top.error(f"--{name.replace('_', '-')} goes with --nodes: a single broker is not killed")
        return
    for name in ("listener", "metrics"):
        text = getattr(given, name)
        try:
            place = _place(text) if text else None
        except ValueError as error:
            top.error(f"argument --{name}: {error}")
        last = CONTROLLERS_AFTER + given.nodes - 1 if name == "listener" else given.nodes - 1
        if place is not None and place.port and place.port + last > PORT_MAX:
            top.error(f"argument --{name}: {text!r}: the ports after it up to {place.port + last} are needed as well")


def _place(text: str) -> Address:
    """Parse HOST:PORT, where port 0 is allowed. Raises ValueError."""
    return parse_address(text, needs_port=True, port_min=0)


def _nodes(directory: Path, given: argparse.Namespace) -> list[Node]:
    settings = [f"group.min.session.timeout.ms={min(6000, _ms(given.session_timeout))}", *given.settings]
    if given.nodes == 1:
        return one_broker(directory, given.listener, given.metrics, settings)
    metrics = _place(given.metrics) if given.metrics else None
    return several_nodes(given.nodes, directory, _place(given.listener), metrics, settings)


def _live(
    nodes: Sequence[Node],
    bootstrap: str,
    clients: dict[str, Process],
    given: argparse.Namespace,
    stop: threading.Event,
) -> None:
    """Supervise everything until it is time to stop. Raises DemoError."""
    crashes = Crashes(clients, given.crash_every, given.back_after)
    if len(nodes) == 1:
        supervise(nodes, [crashes], stop)
        return
    outages = Outages(
        nodes,
        bootstrap,
        KILL_EVERY_S if given.kill_every is None else given.kill_every,
        RESTART_AFTER_S if given.restart_after is None else given.restart_after,
        stop,
    )
    try:
        supervise(nodes, [crashes, outages], stop)
    finally:
        outages.close()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


@contextlib.contextmanager
def _directory(given: Path | None) -> Iterator[Path]:
    if given is None:
        with tempfile.TemporaryDirectory(prefix="broker-cy-demo-") as name:
            yield Path(name)
    else:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()


def _clients(bootstrap: str, directory: Path, rate: float, session_timeout_ms: int) -> dict[str, Process]:
    found = {
        kind: Process(kind, ["demo.worker", "produce", kind, bootstrap, str(per_s * rate)], directory)
        for kind, per_s in PRODUCERS.items()
    }
    for group in GROUPS:
        for name in group.members:
            arguments = ["demo.worker", "consume", name, bootstrap, str(session_timeout_ms)]
            found[name] = Process(name, arguments, directory)
    # Consoles ask the instance for its figures. The application is not reached from other hosts.
    (port,) = free_ports("127.0.0.1", 1)
    values = {
        "state.dir": directory / APPLICATION,
        "application.server": f"127.0.0.1:{port}",
        "metrics.recording.level": "DEBUG",
    }
    arguments = ["broker_streams", "run", "demo/application.py", "-b", bootstrap, "--host", "embedded"]
    arguments += [word for name, value in values.items() for word in ("-X", f"{name}={value}")]
    found[APPLICATION] = Process(APPLICATION, arguments, directory)
    return found


def _kills(nodes: Sequence[Node], given: argparse.Namespace) -> str:
    if len(nodes) == 1:
        return ""
    every_s = KILL_EVERY_S if given.kill_every is None else given.kill_every
    return (
        f"  of {len(nodes)} nodes one is killed every {every_s:g} s while all replicas are in sync; the gap is what a "
        f"producer of topic {HEARTBEATS} sees\n"
    )


def _announce(nodes: Sequence[Node], bootstrap: str, directory: Path, given: argparse.Namespace, page: str) -> None:
    def command(name: str) -> str:
        beside = Path(sys.executable).with_name(name)
        here = beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside
        return shlex.quote(str(here))

    shell, at = command("broker-cy"), f"--bootstrap {bootstrap}"
    ready = "\n".join(node.ready_line for node in nodes)
    kept = "are kept" if given.dir else "are removed at the end"
    print(
        f"""{ready}

demo: {len(packages()):,} packages of this machine, written by {", ".join(PRODUCERS)}
  topics {", ".join(TOPICS)}
  group {QUICK.group_id} keeps up; its member {CRASHING} crashes every {given.crash_every:g} s and is restarted
  group {SLOW.group_id} is too slow: its lag grows
  application {APPLICATION} counts updates of each section in each minute, into topic {SECTIONS}
{_kills(nodes, given)}  data and logs in {directory} {kept}

{f"In a browser: {page}" if page else "Without a dashboard (--dashboard)"}
In another terminal:
  {command("broker-tui")} {at}
  {shell} lag --time {at}
  {shell} events --follow {at}
  {shell} metrics --watch {at}

Ctrl-C stops everything.
""",
        flush=True,
    )
