"""`make demo`: the first contact of new users with this broker."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.launch.processes import Child
from broker_cy.metrics.events import Rebalance
from demo.cli import main
from demo.outage import Gaps
from demo.packages import Package, debian, packages
from demo.topics import CRASHING, QUICK, SECTIONS, SLOW, TOPICS
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
        committed = {name: sum(part.committed or 0 for part in lag.partitions) for name, lag in lags.items()}
        span = await client.events.span(Start.earliest())
        entries = await client.events.read_range(span.start, span.end) or []
        told = [entry.item.event for entry in entries if entry.item is not None]
        return (
            committed,
            {name: lag.total for name, lag in lags.items()},
            [each for each in told if isinstance(each, Rebalance)],
        )


def stop_without_leftovers(child: Child, bootstrap: str, temporary: Path) -> None:
    """Stop the demo with Ctrl-C, and check that none of its processes and files is left."""
    child.send_signal(signal.SIGINT)
    assert child.wait(TIMEOUT_S) == 0
    assert processes_with(bootstrap) + processes_with(str(temporary)) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.full
def test_the_demo_lives_and_leaves_nothing(tmp_path: Path) -> None:
    """If this fails, the console's screens are empty in a new user's first minutes, or Ctrl-C leaves processes and data
    behind.
    """
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    # All events of a minute, within seconds. The member that crashes has to join first, which takes a few seconds on a
    # busy machine.
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
        until(lambda: asyncio.run(_records_in(bootstrap, SECTIONS)) > 0, "results of the application", TIMEOUT_S, 0.5)
        assert f"{CRASHING} crashed" in child.stdout()
        assert "ended unexpectedly" not in child.stdout()
        # One client may be absent at this moment.
        until(lambda: len(processes_with(bootstrap)) >= 5, "the clients")
        stop_without_leftovers(child, bootstrap, temporary)
    finally:
        child.kill()


async def _topics(bootstrap: str) -> set[str]:
    async with AdminClient(bootstrap) as client:
        return {topic.name for topic in await client.topics.list_all()}


async def _records_in(bootstrap: str, topic: str) -> int:
    """The sum of the end offsets of a topic."""
    async with AdminClient(bootstrap) as client:
        ends = await client.offsets.latest([TopicPartition(topic, number) for number in range(TOPICS[topic][0])])
        return sum(ends.found.values())


@pytest.mark.full
def test_three_nodes_of_which_one_is_killed(tmp_path: Path) -> None:
    """If this fails, the first cluster of a new user loses records, prints nothing, or leaves processes running."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    arguments = ["--nodes", "3", "--kill-every", "3", "--restart-after", "2", "--listener", "127.0.0.1:0"]
    arguments += ["--dashboard", "", "--metrics", "127.0.0.1:0"]
    child = Child([sys.executable, "-m", "demo", *arguments], tmp_path, "demo", {"TMPDIR": str(temporary)}, ROOT)
    try:
        child.wait_for_output("Ctrl-C stops", TIMEOUT_S)
        bootstrap = child.stdout().partition("broker-tui --bootstrap ")[2].split()[0]
        assert len(bootstrap.split(",")) == 3

        def said() -> str:
            assert child.returncode is None, child.stderr()
            return child.stdout()

        until(lambda: "every replica is in sync again" in said(), "a node that went and came back", TIMEOUT_S)
        assert re.search(r"^[0-9:]{8} node-1 was killed \(kill -9\)$", said(), re.MULTILINE)
        # The gap is shown as soon as every partition accepts records again, before or after the restart.
        gap = re.compile(
            r"^[0-9:]{8} clients went on: at most [0-9.]+ s without an acknowledgement \(heartbeats-[0-5]\), "
            r"no errors$",
            re.MULTILINE,
        )
        until(lambda: gap.search(said()), "the gap that clients saw", TIMEOUT_S)
        assert "node-1 was restarted" in said()
        assert asyncio.run(_topics(bootstrap)) >= {*TOPICS, "heartbeats"}
        stop_without_leftovers(child, bootstrap, temporary)
    finally:
        child.kill()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nodes", "0"], "'0': allowed are 1, or 3 to 9"),
        (["--nodes", "2"], "'2': two nodes stop when one of them is killed"),
        (["--nodes", "1000"], "'1000': allowed are 1, or 3 to 9"),
        (["--nodes", "three"], "'three': allowed are 1, or 3 to 9"),
        (["--kill-every", "5"], "--kill-every goes with --nodes"),
        (["--restart-after", "5"], "--restart-after goes with --nodes"),
        (["--nodes", "3", "--kill-every", "0"], "'0': a number above 0 is expected"),
        (["--nodes", "3", "--listener", "here:"], "'here:' is not an address"),
        (["--nodes", "3", "--listener", "127.0.0.1:65000"], "the ports after it up to 66002 are needed as well"),
        (["--nodes", "3", "--metrics", "127.0.0.1:65535"], "the ports after it up to 65537 are needed as well"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """If this fails, a wrong option starts a cluster that stops at the first failure, or fails with a traceback."""
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--dir", str(tmp_path / "data")])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_directory_keeps_its_number_of_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, nodes of two clusters mix, and end with an error that does not name the reason."""
    for number in (1, 2, 3):
        (tmp_path / f"node-{number}").mkdir()
    assert main(["--nodes", "5", "--dir", str(tmp_path), "--listener", "127.0.0.1:0"]) == 1
    assert "has the data of 3 nodes: run --nodes 3, or choose another --dir" in capsys.readouterr().err


def test_gaps_of_partitions() -> None:
    """If this fails, the demo shows a gap of no partition, or the end of an outage while a partition still has no
    leader.
    """
    gaps = Gaps(10.0, [9.9, 9.8], [0.0, 0.0])
    gaps.acknowledged(0, 9.95, 10.1)
    ended = [gaps.is_over]
    # The first record was sent before the node died, so it is no evidence of a new leader.
    for partition, sent_s, now_s in ((0, 10.05, 10.15), (1, 10.2, 10.5)):
        gaps.acknowledged(partition, sent_s, now_s)
        ended.append(gaps.is_over)
    assert ended == [False, False, True]
    longest_s, partition = gaps.worst
    assert (round(longest_s, 3), partition) == (0.7, 1)
