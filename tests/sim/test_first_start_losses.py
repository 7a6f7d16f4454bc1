"""Losses of the metadata log and of the first start of a broker that the power cut simulation found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from broker_cy.control.controller_service import SEGMENT_BYTES_MAX
from broker_cy.control.quorum.metadata_log import MetadataLog
from broker_cy.core.clock import ManualClock
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.settings import StorageSettings
from tests.broker_cy.control.test_controller_service import create
from tests.broker_cy.storage.batches import batch
from tests.sim.power_broker import Broker
from tests.sim.power_machine import Least, Machine, Zeros, machine_in_memory
from tests.support import needs
from tests.support.power import PowerCut

pytestmark = needs.memory

BROKER_STORAGE = StorageSettings(retention_check_interval_ms=0)


def broker_on(disk: Machine) -> Broker:
    return Broker(disk.root, random.Random(0), ManualClock(0), BROKER_STORAGE, {"t": {}})


def start_and_create(disk: Machine) -> bool:
    """Start a broker, and create the topic `t` if it does not exist yet; return whether it certainly exists."""
    broker = broker_on(disk)
    try:
        broker.start()
        if broker.topic_id("t") is not None:
            return True
        future: Any = broker.controller.submit(create("t"))
        broker.loop.settle()
        return not future.result().topics[0].error_code
    finally:
        broker.crash()


def write_bootstrap(disk: Machine, elsewhere: Path) -> None:
    """Write the files that Kafka's StorageTool writes."""
    log = Log.create(str(elsewhere), "x", 0, LogConfig(), 0)
    MetadataLog(log, disk.root, SEGMENT_BYTES_MAX).bootstrap_records(0)


def cut_during_the_first_start(disk: Machine, at: int) -> bool:
    """Cut the power at sync number `at`, or after the first start if that has fewer syncs; return whether it was cut at
    the sync.
    """
    disk.cut_at = disk.syncs + at
    is_cut = created = False
    try:
        created = start_and_create(disk)
    except PowerCut:
        is_cut = True
    disk.cut_at = -1
    disk.cut()
    broker = broker_on(disk)
    broker.start()
    assert not created or broker.topic_id("t") is not None
    broker.crash()
    return is_cut


@pytest.mark.parametrize("formatted", [True, False])
@pytest.mark.parametrize("draw", [Least, Zeros])
def test_a_power_cut_at_any_sync_of_the_first_start_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: type[Least], formatted: bool
) -> None:
    """If this fails, a torn bootstrap.checkpoint prevents every later start; or, if Kafka's StorageTool has written
    that file, a topic that was created is lost, because the directory of the metadata log was not synced.
    """
    at, is_cut = 0, True
    while is_cut:
        at += 1
        with machine_in_memory(monkeypatch, draw()) as disk:
            if formatted:
                write_bootstrap(disk, tmp_path)
            is_cut = cut_during_the_first_start(disk, at)
    assert at > 5


def test_the_metadata_log_begins_segments_only_between_appends(tmp_path: Path) -> None:
    """If this fails, a power cut may keep the new segment and lose the end of the previous one, and the next start is
    refused although nothing that was committed is lost.
    """
    one = batch(0, size=100)
    path = str(tmp_path / "__cluster_metadata-0")
    log = Log.create(path, "__cluster_metadata", 0, LogConfig(segment_bytes=SEGMENT_BYTES_MAX), 0)
    files = MetadataLog(log, str(tmp_path), 3 * len(one))
    ends = []
    for _ in range(5):
        start = log.log_end_offset
        files.append(batch(start, size=100) + batch(start + 1, size=100), 0)
        ends.append(log.log_end_offset)
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 2, 4, 6, 8]
    assert set(bases[1:]) <= set(ends)
