"""Random work on a broker that is killed again and again leaves no anomaly.

A failure prints the seed, the anomalies and the command that runs the same work again: HISTORY_SEED=<seed>. The threads
interleave as they please, so that a rare failure may take some runs. With HISTORY_KEEP=<directory> each run that fails
leaves its history there, and the broker's files as a kill -9 at that moment leaves them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from bench.launch.processes import ProcessError
from tests.history.checker import Anomaly, check
from tests.history.operations import Delete, Outcome, Poll, Transaction
from tests.history.workload import Workload
from tests.support.broker import Target
from tests.support.topics import create_topic

MakeBroker = Callable[..., Target]
# Rolls segments, so that producers' state and transactions reach over files.
SETTINGS = {"log.segment.bytes": str(1 << 20)}
PARTITIONS = 3
SEED = int(os.environ.get("HISTORY_SEED", "1"))


def run(broker: Target, seed: int, kills: int, acks: int, test: str) -> None:
    """`kills` times: work until `acks` more records are acknowledged, and kill -9."""
    topic = f"history-{seed}"
    create_topic(broker.bootstrap, topic, PARTITIONS)
    work = Workload(broker, topic, PARTITIONS, seed)
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
    outcomes = {each.outcome for each in operations if isinstance(each, Transaction)}
    assert outcomes == set(Outcome), "the run was idle"
    assert sum(len(each.records) for each in operations if isinstance(each, Poll)) > 2 * acks, "the run was idle"


def keep(work: Workload, directory: Path) -> None:
    """What is needed to find out why a run failed, in the place of what an earlier run of its name left."""
    work.broker.kill()
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(work.broker.data_dir.parent, directory)
    (directory / "history.txt").write_text("\n".join(map(repr, work.recorder.operations)))


def test_no_anomaly(make_broker: MakeBroker) -> None:
    """Else: acknowledged records are lost or doubled, or transactions are not what they promise."""
    run(make_broker(SETTINGS), SEED, kills=2, acks=500, test="test_no_anomaly")


class Careless(Workload):
    """All its consumers read uncommitted records, whatever they say."""

    def consumer(self, name: str, *, committed: bool, **settings: Any) -> Consumer:
        return super().consumer(name, committed=False, **settings)


def test_dirty_reads_are_found(make_broker: MakeBroker) -> None:
    """Else: what is recorded of a real run is too little to find anything in it."""
    broker = make_broker(SETTINGS)
    create_topic(broker.bootstrap, "careless", PARTITIONS)
    work = Careless(broker, "careless", PARTITIONS, SEED)
    try:
        work.go_on(300, 5)
        work.finish()
    finally:
        work.over.set()
    assert Anomaly.ABORTED_READ in {finding.anomaly for finding in check(work.recorder.operations)}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_anomaly_for_long(make_broker: MakeBroker) -> None:
    """The same, for the rare moments."""
    broker = make_broker(SETTINGS)
    for seed in range(SEED, SEED + 30):
        run(broker, seed, kills=8, acks=2000, test="test_no_anomaly_for_long")
