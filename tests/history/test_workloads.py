"""Random operations on a broker that is killed repeatedly produce no anomaly.

A failure prints the seed, the anomalies and the command that runs the same operations again: HISTORY_SEED=<seed>. The
interleaving of the threads is not determined, so that reproducing a rare failure may take several runs. With
HISTORY_KEEP=<directory> each run that fails leaves its history there, and the broker's files as after a kill -9 at that
moment.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from broker_cy.launch.processes import ProcessError
from tests.history.checker import Anomaly, check
from tests.history.operations import Assign, Compact, Delete, Fate, Operation, Outcome, Poll, Send, Transaction
from tests.history.powered import PoweredWorkload, powered_broker
from tests.history.workload import Workload
from tests.support import needs
from tests.support.broker import Target

# The interleavings of a run depend on the machine; in make test, worlds (tests/sim) check the same histories.
pytestmark = pytest.mark.full

MakeBroker = Callable[..., Target]
# Small segments, so that producers' state and transactions span several.
SETTINGS = {"log.segment.bytes": str(1 << 20), "log.cleaner.backoff.ms": "50"}
SEED = int(os.environ.get("HISTORY_SEED", "1"))


def run(
    broker: Target, seed: int, kills: int, acks: int, test: str, workload: type[Workload] = Workload
) -> list[Operation]:
    """Wait until `acks` more records are acknowledged, then crash the broker; do this `kills` times. Returns the
    history.
    """
    work = workload(broker, f"history-{seed}", seed)
    again = f"again with: HISTORY_SEED={seed} python -m pytest tests/history/test_workloads.py -k {test}"
    try:
        for _ in range(kills):
            work.go_on(acks, 3)
            work.kill_broker()
        work.go_on(acks, 3)
        work.finish()
        operations = work.recorder.operations
        findings = check(operations)
        shown = "\n".join(map(str, findings[:20]))
        assert not findings, f"{len(findings)} anomalies in {len(operations)} operations:\n{shown}"
        assert "traceback" not in broker.stderr()
    except (AssertionError, ProcessError) as error:
        if "HISTORY_KEEP" in os.environ:
            keep(work, Path(os.environ["HISTORY_KEEP"]) / f"{test}-{seed}")
        raise AssertionError(f"seed {seed}: {error}\n{again}") from error
    finally:
        work.over.set()
    assert any(isinstance(each, Delete) for each in operations), "the run was idle"
    assert work.rebalances > 0, "the run was idle"
    assert work.refused > 0, "the run was idle"
    assert compacted_away(operations) > 0, "nothing was compacted"
    outcomes = {each.outcome for each in operations if isinstance(each, Transaction)}
    assert outcomes == set(Outcome), "the run was idle"
    assert sum(len(each.records) for each in operations if isinstance(each, Poll)) > 2 * acks, "the run was idle"
    print(
        f"seed {seed}: {kills} kills, {len(operations)} operations, {work.acked} acknowledged, {work.refused} refused"
    )
    return operations


def compacted_away(operations: list[Operation]) -> int:
    """The number of acknowledged records of compacted partitions that the last reader did not find."""
    places = {each.place for each in operations if isinstance(each, Compact)}
    sent = {
        each.value for each in operations if isinstance(each, Send) and each.place in places and each.fate is Fate.ACKED
    }
    last = {
        read.value
        for each in operations
        if isinstance(each, Poll) and each.consumer == "last-False"
        for read in each.records
    }
    return len(sent - last)


def keep(work: Workload, directory: Path) -> None:
    """Keep the history and the files of a failed run, instead of those of an earlier run."""
    work.broker.kill()
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(work.broker.data_dir.parent, directory)
    (directory / "history.txt").write_text("\n".join(map(repr, work.recorder.operations)))


def test_no_anomaly(make_broker: MakeBroker) -> None:
    """If this fails, acknowledged records are lost or duplicated, or transactions do not keep their guarantees."""
    run(make_broker(SETTINGS), SEED, kills=2, acks=500, test="test_no_anomaly")


class Careless(Workload):
    """A workload whose consumers all read uncommitted records, whatever isolation level they record."""

    def consumer(self, name: str, *, committed: bool, **settings: Any) -> Consumer:
        return super().consumer(name, committed=False, **settings)


def reads_aborted(operations: list[Operation]) -> bool:
    """Whether a consumer that records read_committed has got a record of an aborted transaction."""
    aborted = {each.name for each in operations if isinstance(each, Transaction) and each.outcome is Outcome.ABORTED}
    values = {each.value for each in operations if isinstance(each, Send) and each.transaction in aborted}
    committed = {each.consumer for each in operations if isinstance(each, Assign) and each.committed}
    polls = (each for each in operations if isinstance(each, Poll) and each.consumer in committed)
    return any(read.value in values for poll in polls for read in poll.records)


def test_dirty_reads_are_found(make_broker: MakeBroker) -> None:
    """If this fails, the history of a real run records too little to find anomalies."""
    broker = make_broker(SETTINGS)
    work = Careless(broker, "careless", SEED)
    try:
        for _ in range(20):  # which consumer reads which record depends on the machine
            work.go_on(100, 5)
            if reads_aborted(list(work.recorder.operations)):
                break
        work.finish()
    finally:
        work.over.set()
    assert Anomaly.ABORTED_READ in {finding.anomaly for finding in check(work.recorder.operations)}


@needs.memory
def test_no_anomaly_after_power_cuts(tmp_path: Path) -> None:
    """If this fails, with every message synced, a power cut loses acknowledged records or the ends of transactions."""
    with powered_broker(tmp_path, SETTINGS, SEED) as broker:
        run(broker, SEED, kills=2, acks=300, test="test_no_anomaly_after_power_cuts", workload=PoweredWorkload)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(SEED, SEED + 5))
def test_no_anomaly_for_long(make_broker: MakeBroker, seed: int) -> None:
    """Repeat the test with 20 kills, for rare interleavings."""
    run(make_broker(SETTINGS), seed, kills=20, acks=1000, test="test_no_anomaly_for_long")


@needs.memory
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(SEED, SEED + 5))
def test_no_anomaly_after_many_power_cuts(tmp_path: Path, seed: int) -> None:
    """Repeat the test with 20 power cuts."""
    test = "test_no_anomaly_after_many_power_cuts"
    with powered_broker(tmp_path, SETTINGS, seed) as broker:
        run(broker, seed, kills=20, acks=500, test=test, workload=PoweredWorkload)
