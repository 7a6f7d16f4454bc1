"""Whole runs as users make them, from the command line."""

from __future__ import annotations

import json
import os
import signal
import threading
import uuid
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.launch.nodes import free_ports
from bench.wire import protocol
from broker_cy.client.program import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNREACHED, EXIT_USAGE
from loadgen.command import DATA_WRONG, GENERATOR_LIMIT
from tests.loadgen.run.kit import UNDISTURBED, Load, children_of, freeze, load, loading, producers, thaw
from tests.support.broker import Target

FROZEN_S = 1.0


@pytest.fixture
def topic() -> str:
    return f"load-{uuid.uuid4().hex[:8]}"


def test_a_run(either_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, the first thing that a user tries does not work."""
    scenario = producers(tmp_path, topic, more="[thresholds.Produce]\nerror_share = 0\nrequests_least = 2500\n")
    page, xml = tmp_path / "report.html", tmp_path / "result.xml"
    run = load(tmp_path, either_broker.bootstrap, "--scenario", scenario, "--html", page, "--junit", xml)
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    produced = run.of.operations["Produce"]
    assert produced.failures == 0
    assert produced.latency is not None
    assert produced.requests == 3000
    verification = run.of.verification
    assert verification is not None
    assert verification.is_good
    # All sent records are checked, including the warm-up and the last users: 3.5 s of 1,000/s.
    assert verification.total("acknowledged") == 3500
    assert "all 3,500 acknowledged records were found" in run.stdout
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert ElementTree.parse(xml).getroot().find(".//testcase") is not None


@pytest.mark.full
def test_two_processes_follow_one_schedule(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, workers together send another rate than one would, or one partition's records are miscounted."""
    run = load(tmp_path, own_broker.bootstrap, "--scenario", producers(tmp_path, topic, rate=900), "--processes", "2")
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    assert len(run.of.workers) == 2
    assert all(each.requests for each in run.of.workers)
    assert run.of.verification is not None
    assert run.of.verification.total("acknowledged") == 3150


MIXTURE = """
duration = "2s"
warm_up = "0.5s"
[topic]
name = "{topic}"
partitions = 4
[[users]]
kind = "producer"
count = 4
rate = "200/s"
[[users]]
kind = "consumer"
count = 4
from = "earliest"
[[users]]
kind = "probe"
count = 1
rate = "20/s"
"""


@pytest.mark.full
def test_two_processes_share_each_entry(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, one process has all users of an entry and the other one its operations, which are never sent."""
    scenario = tmp_path / "mixture.toml"
    scenario.write_text(MIXTURE.format(topic=topic), encoding="utf-8")
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, "--processes", "2")
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    assert run.of.unsent == 0
    assert run.of.operations["Produce"].requests == 440  # with those of the probe
    assert run.of.operations["Probe"].requests == 40
    # Each of the four partitions has a reader, in either process.
    assert run.of.operations["Fetch"].records >= 400


@pytest.mark.full
def test_a_frozen_broker_is_charged_for_all_that_waited(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, only the one request that met a stall measures it, and not the requests that were due
    meanwhile.
    """
    timers = []

    def meanwhile(running: Load) -> None:
        running.shows("Produce")
        freeze(own_broker.pid)
        timer = threading.Timer(FROZEN_S, thaw, [own_broker.pid])
        timers.append(timer)
        timer.start()

    scenario = producers(tmp_path, topic, seconds=8, users=5)
    try:
        run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, meanwhile=meanwhile)
    finally:
        for timer in timers:
            timer.join()
    found = run.of.operations["Produce"].latency
    assert found is not None
    assert found.max_ms >= 950
    # A thousand requests were due in that second, and most of them waited for more than 100 ms: 10 % of all.
    assert found.p90_ms >= 50
    # The users were busy because the broker was frozen: that is not the generator's fault.
    assert not [each for each in run.of.generator.reasons if "user" in each and "free" not in each]


@pytest.mark.full
def test_a_killed_broker_loses_nothing(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, a crash of the broker loses acknowledged records, or the verification says so wrongly."""

    def meanwhile(running: Load) -> None:
        running.shows("Produce")
        own_broker.kill()
        own_broker.restart()

    scenario = producers(tmp_path, topic, seconds=8, more="[thresholds.Produce]\nerrors = 0\n")
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, meanwhile=meanwhile)
    verification = run.of.verification
    assert verification is not None
    assert verification.is_good, verification
    assert verification.total("acknowledged") > 3000
    assert run.of.counts.get("retries", 0) > 0


@pytest.mark.full
def test_a_worker_that_dies_is_reported(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, half of the load disappears and the figures look as if the cluster had served all of it."""

    def meanwhile(running: Load) -> None:
        running.shows("Produce")
        os.kill(children_of(running.child.pid)[0], signal.SIGKILL)

    scenario = producers(tmp_path, topic, seconds=12, rate=500)
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, "--processes", "2", meanwhile=meanwhile)
    assert run.code == GENERATOR_LIMIT, run.stdout + run.stderr
    (lost,) = (each for each in run.of.workers if each.lost is not None)
    assert lost.missing_share > 0
    assert "disappeared" in (lost.lost or "")
    assert run.of.verification is not None
    assert run.of.verification.is_good


@pytest.mark.full
def test_the_raw_engine_follows_its_schedule(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, the report of a run with the raw engine counts sent requests as unsent."""
    scenario = producers(tmp_path, topic, users=2, rate=400)
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, "--engine", "raw")
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    assert run.of.verification is not None
    assert run.of.verification.total("acknowledged") == 1400
    # Samples of the driver are of a quarter of a second: those around the end of the warm-up are in or out.
    assert 1100 <= run.of.operations["Produce"].requests <= 1300
    assert run.of.unsent == 0
    assert run.of.queued_share == 0


@pytest.mark.full
def test_a_cluster_that_goes_away_for_good_leaves_the_figures(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, a long run has no figures if the topic cannot be deleted after it."""

    def meanwhile(running: Load) -> None:
        running.shows("Produce")
        own_broker.kill()

    scenario = producers(tmp_path, topic, seconds=6, rate=500)
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, "--timeout", "1s", meanwhile=meanwhile)
    assert run.code == DATA_WRONG, run.stdout + run.stderr
    assert run.of.operations["Produce"].requests
    assert run.of.verification is not None
    assert run.of.verification.problem is not None
    assert any("topics that the run created are still there" in each for each in run.of.notes)
    assert "Traceback" not in run.stderr


@pytest.mark.full
def test_a_topic_of_others_stays(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, a run deletes a topic that another program recreated under its name, with all its records."""
    host, _, port = own_broker.bootstrap.rpartition(":")

    def meanwhile(running: Load) -> None:
        running.shows("Produce")
        with protocol.Client((host, int(port))) as client:
            client.delete_topic(topic)
            client.create_topic(topic, 1, {})

    scenario = producers(tmp_path, topic, seconds=3, rate=100)
    load(tmp_path, own_broker.bootstrap, "--scenario", scenario, "--timeout", "2s", meanwhile=meanwhile)
    with protocol.Client((host, int(port))) as client:
        assert client.list_offsets(topic, (0,), -1).keys() == {0}


@pytest.mark.full
def test_a_user_that_cannot_connect_is_reported_once(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, a terminal is full of tracebacks, and dead members delay the group in the next run."""
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        f'timeout = "0.2s"\n[topic]\nname = "{topic}"\n'
        # The coordinator delays the first rebalance of a group for longer.
        '[[users]]\nkind = "group-member"\nsession_timeout_ms = 200\nheartbeat_interval_ms = 100\ncount = 20\n',
        encoding="utf-8",
    )
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario)
    assert run.code == EXIT_FAILED, run.stdout + run.stderr
    assert "not joined in" in run.stderr
    assert "Traceback" not in run.stderr


def test_ctrl_c_gives_the_figures_so_far(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, a long run that is ended early has no figures, or leaves its topic."""

    def meanwhile(running: Load) -> None:
        running.shows("Produce")
        running.interrupt()

    run = load(
        tmp_path, own_broker.bootstrap, "--scenario", producers(tmp_path, topic, seconds=600), meanwhile=meanwhile
    )
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    assert run.of.ended is not None
    assert "of 600 s" in run.of.ended
    assert run.of.verification is not None
    assert run.of.verification.is_good
    assert "Traceback" not in run.stderr
    assert not [each for each in own_broker.data_dir.glob(f"{topic}-*") if not each.name.endswith("-delete")]


@pytest.mark.full
def test_ctrl_c_stops_the_thread_of_raw(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, raw continues until the timeout, and its records are not checked: a run with a loss would pass."""

    def meanwhile(running: Load) -> None:
        running.shows("Produce")
        running.interrupt()

    scenario = producers(tmp_path, topic, seconds=600)
    text = scenario.read_text(encoding="utf-8").replace("count = 20", 'engine = "raw"\ncount = 2')
    scenario.write_text(text.replace('duration = "600s"', 'duration = "600s"\nverify = "after"'), encoding="utf-8")
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, meanwhile=meanwhile)
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    assert run.of.verification is not None
    assert run.of.verification.is_good
    assert run.of.verification.total("acknowledged") >= run.of.operations["Produce"].requests > 0
    assert not [each for each in run.of.notes if "did not end" in each]


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_while_it_is_read_back(own_broker: Target, topic: str, tmp_path: Path, processes: str) -> None:
    """If this fails, an impatient second Ctrl-C loses the figures of a run, and leaves its topic."""

    def meanwhile(running: Load) -> None:
        running.shows("reading back")
        running.interrupt()
        running.interrupt()

    scenario = producers(tmp_path, topic, seconds=2)
    run = load(tmp_path, own_broker.bootstrap, "--scenario", scenario, "--processes", processes, meanwhile=meanwhile)
    assert run.of.operations["Produce"].requests == 2000
    assert run.of.verification is not None
    # It may have been read before the signal came.
    assert run.of.verification.problem in (None, "interrupted")
    assert run.code == DATA_WRONG or run.of.verification.is_good
    assert "Traceback" not in run.stderr
    assert not [each for each in own_broker.data_dir.glob(f"{topic}-*") if not each.name.endswith("-delete")]


@pytest.mark.full
def test_a_search_finds_a_rate(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, the highest rate of a cluster cannot be found."""
    path = tmp_path / "search.toml"
    path.write_text(
        f'warm_up = "0.2s"\n[topic]\nname = "{topic}"\n[[users]]\nkind = "producer"\ncount = 20\nrate = "1/s"\n'
        '[search]\noperation = "Produce"\npercentile = 99\nbound = "10s"\nfrom = "200/s"\nto = "400/s"\nhold = "2s"\n',
        encoding="utf-8",
    )
    run = load(tmp_path, own_broker.bootstrap, "--scenario", path)
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    assert [step.rate for step in run.of.steps] == [200, 300, 400]
    assert all(not step.why for step in run.of.steps)
    assert run.of.operations["Produce"].requests == 800


def test_no_cluster(tmp_path: Path) -> None:
    """If this fails, a wrong address causes a traceback or counts as a failure of the cluster."""
    run = load(tmp_path, "127.0.0.1:1", "--scenario", "hot-key")
    assert run.code == EXIT_UNREACHED
    assert "connect, broker 127.0.0.1:1: connection refused: no process listens there" in run.stderr
    assert "Traceback" not in run.stderr


def test_no_cluster_as_json(tmp_path: Path) -> None:
    """If this fails, a program that reads errors of all programs finds the broker in the text of this one only."""
    run = load(tmp_path, "127.0.0.1:1", "--scenario", "hot-key", "--json")
    error = json.loads(run.stderr.splitlines()[-1])["error"]
    assert (error["failure"], error["api"], error["broker"]) == ("unreachable", "connect", "127.0.0.1:1")
    assert error["reason"] == "connection refused: no process listens there"


def test_ctrl_c_before_the_run_begins(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, a script takes a run that its user interrupted for one that failed."""
    (port,) = free_ports(1)
    words = ("--scenario", producers(tmp_path, topic), "--workers", "1", "--listen", f"127.0.0.1:{port}")
    with loading(tmp_path, own_broker.bootstrap, *words, mode="master") as running:
        running.shows("creating topics")
        running.interrupt()
        run = running.end()
    assert run.code == EXIT_INTERRUPTED
    assert "broker-load: interrupted before the run began" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--rate", "5x"], "--rate: '5x' has the unit 'x' (allowed: /s, /min, /h)"),
        (["--scenario", "mixd"], "did you mean 'mixed'?"),
        (["--processes", "0"], "'--processes'"),
        (["--rat", "5/s"], "--rate"),
        # A file, as in earlier releases.
        (["--json", "result.json"], "to write a file, use --json-file result.json"),
        (["--html", "missing/report.html"], "--html: missing/report.html: missing is no directory"),
    ],
)
def test_wrong_options(options: list[str], text: str, tmp_path: Path) -> None:
    """If this fails, a typing error starts another run than intended, or is reported as a generator limit."""
    run = load(tmp_path, "127.0.0.1:1", *options)
    assert run.code == EXIT_USAGE, run.stderr
    assert text in run.stderr


@pytest.mark.full
def test_workers_that_do_not_come(own_broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, Ctrl-C does not end a master that waits for its workers."""
    scenario = producers(tmp_path, topic)
    options = ["--scenario", str(scenario), "--workers", "2", "--listen", f"127.0.0.1:{free_ports(1)[0]}"]
    with loading(tmp_path, own_broker.bootstrap, *options, mode="master") as running:
        running.shows("creating topics")
        running.interrupt()
        run = running.end()
    assert run.code == EXIT_INTERRUPTED
    assert "interrupted" in run.stderr
