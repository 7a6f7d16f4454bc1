"""`make demo`: the first thing that new users see of this broker."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from urllib.request import urlopen

from bench.launch.processes import Child
from broker_cy.admin import AdminClient
from broker_cy.admin.records import Start
from broker_cy.metrics.events import Rebalance
from demo.packages import Package, debian, packages
from demo.topics import CRASHING, QUICK, SLOW, TOPICS
from tests.support.wait import until

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 90.0
STATUS = """\
Package: libx
Status: install ok installed
Installed-Size: 120
Depends: libc6 (>= 2.30), liby | libz
Version: 1.2-3
Description: a library: with a colon
 More of it: not a field.

Package: half
Version: 2
"""


def test_packages_of_this_machine(tmp_path: Path) -> None:
    """If this fails, the demo has no records on a machine without dpkg, or fails on a field."""
    status = tmp_path / "status"
    status.write_text(STATUS)
    libx, half = debian(status)
    assert libx == Package("libx", "1.2-3", "debian", "", 120, "a library: with a colon", "", ("libc6", "liby"))
    assert (half.key, half.size_kb) == (b"debian/half", 0)
    record = json.loads(libx.record(5, kind="checked"))
    assert (record["name"], record["number"], record["kind"]) == ("libx", 5, "checked")
    found = packages(tmp_path / "missing")
    assert {"click", "pytest"} <= {each.name for each in found}
    assert len({each.key for each in found}) == len(found)


def processes_with(text: str) -> list[int]:
    """Return the processes whose command line contains `text`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


async def _what_is_there(bootstrap: str) -> tuple[dict[str, int], dict[str, int], list[Rebalance]]:
    """Return committed offsets and lag by group, and the rebalances so far."""
    async with AdminClient(bootstrap, timeout_s=30) as client:
        lags = (await client.lag.of([QUICK.group_id, SLOW.group_id])).whole()
        committed = {name: sum(part.committed for part in lag.partitions) for name, lag in lags.items()}
        span = await client.events.span(Start.earliest())
        entries = await client.events.read_range(span.start, span.end) or []
        told = [entry.item.event for entry in entries if entry.item is not None]
        return (
            committed,
            {name: lag.total for name, lag in lags.items()},
            [each for each in told if isinstance(each, Rebalance)],
        )


def test_the_demo_lives_and_leaves_nothing(tmp_path: Path) -> None:
    """If this fails, the console's screens are empty in a new user's first minutes, or Ctrl-C leaves processes and data
    behind.
    """
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    # Everything that happens in a minute, within seconds. The member that crashes has to join before, which takes a few
    # seconds on a busy machine.
    quick = ["--session-timeout", "2", "--crash-every", "5", "--back-after", "1", "--rate", "2"]
    quick += [
        "--listener",
        "127.0.0.1:0",
        "--dashboard",
        "127.0.0.1:0",
        "--metrics",
        "",
        "--set",
        "group.initial.rebalance.delay.ms=0",
    ]
    child = Child([sys.executable, "-m", "demo", *quick], tmp_path, "demo", {"TMPDIR": str(temporary)}, ROOT)
    try:
        child.wait_for_output("Ctrl-C stops", TIMEOUT_S)
        said = child.stdout()
        bootstrap = said.partition("broker-tui --bootstrap ")[2].split()[0]
        assert f"ready on {bootstrap}" in said
        page = said.partition("In a browser: ")[2].split()[0]
        with urlopen(page, timeout=TIMEOUT_S) as answer:
            assert b"live.js" in answer.read()

        def is_alive() -> bool:
            assert child.returncode is None, child.stderr()
            committed, lag, rebalances = asyncio.run(_what_is_there(bootstrap))
            crashed = {
                trigger.client_id
                for each in rebalances
                if each.group == QUICK.group_id
                for trigger in each.triggers
                if trigger.reason == "session_timeout"
            }
            return (
                committed.get(QUICK.group_id, 0) > 0
                and committed.get(SLOW.group_id, 0) > 0
                and lag[SLOW.group_id] > lag[QUICK.group_id]
                and CRASHING in crashed
            )

        until(is_alive, "a workload", TIMEOUT_S, interval_s=0.2)
        assert asyncio.run(_topics(bootstrap)) >= set(TOPICS)
        assert f"{CRASHING} crashed" in child.stdout()
        assert "ended unexpectedly" not in child.stdout()
        # One of them may just be away.
        until(lambda: len(processes_with(bootstrap)) >= 5, "the clients")
        child.send_signal(signal.SIGINT)
        assert child.wait(TIMEOUT_S) == 0
        assert processes_with(bootstrap) + processes_with(str(temporary)) == []
        assert list(temporary.iterdir()) == []
    finally:
        child.kill()


async def _topics(bootstrap: str) -> set[str]:
    async with AdminClient(bootstrap) as client:
        return {topic.name for topic in await client.topics.list_all()}
