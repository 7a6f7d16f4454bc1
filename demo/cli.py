"""The demo: its arguments, and starting, supervising and stopping its processes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from demo.packages import packages
from demo.processes import Broker, Dashboard, DemoError, Process, address_in, stop_all
from demo.topics import CRASHING, GROUPS, PRODUCERS, QUICK, SLOW, TOPICS

DESCRIPTION = """\
Runs a broker with a workload until Ctrl-C: three producers write the packages that are installed on this machine, and
two groups read them. One group is too slow; a member of the other one crashes now and then."""

EXAMPLES = """\
examples:
  make demo
  make demo ARGS="--listener 127.0.0.1:0"              use a free port
  make demo ARGS="--dir ./demo-data --rate 10"         keep the data, and write ten times as many records
"""
# How often the processes are checked.
LOOK_S = 0.1
# A process that ends unexpectedly is restarted after this.
RESTART_S = 2.0


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
        "--listener",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        help="address of the broker; default %(default)s; port 0 selects a free port",
    )
    top.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        default="127.0.0.1:9404",
        help="address of the metrics; default %(default)s; empty for none",
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
    given = parser().parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with _directory(given.dir) as directory:
        settings = [f"group.min.session.timeout.ms={min(6000, _ms(given.session_timeout))}", *given.settings]
        if given.metrics:
            settings.insert(0, f"brokercy.metrics.listener={given.metrics}")
        broker = Broker(directory, given.listener, settings)
        clients: dict[str, Process] = {}
        try:
            ready = broker.start_and_wait(stop)
            bootstrap = address_in(ready)
            asyncio.run(_create_topics(bootstrap))
            clients = _clients(bootstrap, directory, given.rate, _ms(given.session_timeout))
            for each in clients.values():
                each.start()
            page = ""
            if given.dashboard:
                dashboard = Dashboard(directory, given.dashboard, bootstrap)
                clients["dashboard"] = dashboard
                page = dashboard.start_at(stop)
            _announce(ready, bootstrap, directory, given, page)
            _live(broker, clients, given.crash_every, given.back_after, stop)
        except (DemoError, ClientError) as error:
            if not stop.is_set():
                print(f"demo: {error}", file=sys.stderr)
                return 1
        finally:
            # The clients stop first: members leave their groups, and producers end their transactions.
            stop_all(list(clients.values()))
            stop_all([broker])
    print("demo: stopped", flush=True)
    return 0


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


async def _create_topics(bootstrap: str) -> None:
    """Create the topics that an earlier run has not created."""
    async with AdminClient(bootstrap, client_id="demo") as client:
        wanted = [NewTopic(name, partitions, 1, configs=configs) for name, (partitions, configs) in TOPICS.items()]
        for error in (await client.topics.create(wanted)).failed.values():
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error


def _clients(bootstrap: str, directory: Path, rate: float, session_timeout_ms: int) -> dict[str, Process]:
    found = {
        kind: Process(kind, ["demo.worker", "produce", kind, bootstrap, str(per_s * rate)], directory)
        for kind, per_s in PRODUCERS.items()
    }
    for group in GROUPS:
        for name in group.members:
            arguments = ["demo.worker", "consume", name, bootstrap, str(session_timeout_ms)]
            found[name] = Process(name, arguments, directory)
    return found


def _announce(ready: str, bootstrap: str, directory: Path, given: argparse.Namespace, page: str) -> None:
    def command(name: str) -> str:
        beside = Path(sys.executable).with_name(name)
        here = beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside
        return shlex.quote(str(here))

    shell, at = command("broker-cy"), f"--bootstrap {bootstrap}"
    kept = "are kept" if given.dir else "are removed at the end"
    print(
        f"""{ready}

demo: {len(packages()):,} packages of this machine, written by {", ".join(PRODUCERS)}
  topics {", ".join(TOPICS)}
  group {QUICK.group_id} keeps up; its member {CRASHING} crashes every {given.crash_every:g} s and is restarted
  group {SLOW.group_id} is too slow: its lag grows
  data and logs in {directory} {kept}

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


def _live(
    broker: Process, clients: dict[str, Process], crash_every_s: float, back_after_s: float, stop: threading.Event
) -> None:
    """Supervise the processes until it is time to stop; kills one of them now and then. Raises DemoError."""
    starts_at_s: dict[str, float] = {}
    crash_at_s = time.monotonic() + crash_every_s
    while not stop.wait(LOOK_S):
        now_s = time.monotonic()
        if broker.has_ended:
            raise DemoError(f"the broker ended:\n{broker.last_words()}")
        if now_s >= crash_at_s and not clients[CRASHING].has_ended:
            clients[CRASHING].kill()
            starts_at_s[CRASHING] = now_s + back_after_s
            crash_at_s = now_s + max(crash_every_s, back_after_s)
            _say(f"{CRASHING} crashed (kill -9)")
        for name, process in clients.items():
            if not process.has_ended:
                continue
            if name not in starts_at_s:
                _say(f"{name} ended unexpectedly: {process.log_path}\n{process.last_words()}")
                starts_at_s[name] = now_s + RESTART_S
            elif now_s >= starts_at_s[name]:
                del starts_at_s[name]
                process.start()
                _say(f"{name} was restarted")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
