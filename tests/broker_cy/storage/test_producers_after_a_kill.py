"""Producer state of a start after a kill: the same as in the killed process, whatever was deleted before."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.storage import flusher
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig

from .batches import batch
from .managing import TOPIC_ID, open_manager
from .test_open_transactions import marker, transactional

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=200)
WORK = ("plain", "data", "data", "data", "commit", "abort")
# The number is a producer's, or how many sixths of the log are deleted.
STEPS = st.lists(
    st.tuples(st.sampled_from((*WORK, *WORK, "delete", "delete", "flush", "note", "kill")), st.integers(0, 6)),
    max_size=60,
)


def producers_of(log: Log) -> list[tuple[int, ...]]:
    return sorted(log.producers.describe())


def test_the_last_batch_is_deleted_and_its_marker_is_not(tmp_path: Path) -> None:
    """If this fails, the producer stays out of order forever, although its requests are correct."""
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    log.append(transactional(0, 7, 0) + transactional(1, 7, 1) + marker(2, 7, True), 0)
    manager.delete_records_before(log, 2)
    known = producers_of(log)
    manager.crash()
    log = open_manager(tmp_path, config=CONFIG).logs["t", 0]
    assert log.log_start_offset == 2
    assert producers_of(log) == known
    assert log.producers.check_batch(transactional(3, 7, 2))[0] == 0


@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
def test_a_kill_changes_nothing(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    """If this fails, a batch that is sent again is written twice, the next one is refused, or a transaction stays open
    forever.
    """
    directory = tmp_path_factory.mktemp("data")
    sequences: dict[int, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flusher, "NOTE_LOG_BYTES", 0)
        manager = open_manager(directory, config=CONFIG)
        log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
        for kind, number in [*steps, ("kill", 0)]:
            end = log.log_end_offset
            if kind in ("plain", "data"):
                producer = number + (100 if kind == "plain" else 0)
                sequence = sequences.get(producer, 0)
                sequences[producer] = sequence + 1
                if kind == "plain":
                    log.append(batch(end, producer_id=producer, producer_epoch=0, sequence=sequence), 0)
                else:
                    log.append(transactional(end, producer, sequence), 0)
            elif kind in ("commit", "abort"):
                log.append(marker(end, number, kind == "commit"), 0)
            elif kind == "delete":
                start = log.log_start_offset
                manager.delete_records_before(log, start + (end - start) * number // 6)
            elif kind == "flush":
                manager.flusher.start()
            elif kind == "note":
                manager.flusher.note()
            else:
                known, stable = producers_of(log), log.last_stable_offset(end)
                manager.crash()
                manager = open_manager(directory, config=CONFIG)
                log = manager.logs["t", 0]
                assert (producers_of(log), log.last_stable_offset(end)) == (known, stable)
        manager.crash()
