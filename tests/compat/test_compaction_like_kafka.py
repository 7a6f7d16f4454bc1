"""The result of compacting records that Apache Kafka wrote, against the result of Kafka's own cleaner."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from broker_cy.storage.log import Log
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles
from tests.broker_cy.storage.cleaning import KEY, clean, compacted_config, make_cleaner, segment_paths, stored
from tests.compat.record_compaction import ARCHIVE, DELETE_RETENTION_MS, PASSES, SEGMENT_MS


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pictures")
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11.4 introduced the filter, and from 3.12 on it must be named.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(directory, filter="data")
        else:
            archive.extractall(directory)
    return directory


def cleaned_offset(picture: Path) -> int | None:
    checkpoint = picture / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return int(lines[0].split()[2]) if lines else None


def aborted(directory: Path) -> list[tuple[str, bytes]]:
    """Transaction indexes that have entries."""
    return [(path.name, path.read_bytes()) for path in sorted(directory.glob("*.txnindex")) if path.stat().st_size]


def load(directory: Path) -> Log:
    config = compacted_config(
        segment_bytes=1 << 30,
        segment_ms=SEGMENT_MS,
        delete_retention_ms=DELETE_RETENTION_MS,
        index_interval_bytes=200,
    )
    context = LoadContext(OpenFiles(), LogTotals(), True, 0, 86_400_000)
    return load_log(str(directory), "t", 0, config, 0, 0, context)


@pytest.mark.parametrize("number", list(PASSES))
def test_leaves_what_kafka_leaves(pictures: Path, tmp_path: Path, number: str) -> None:
    """If this fails, records that Kafka keeps are lost, deleted ones come back, or a producer loses its state."""
    before, after = pictures / f"{number}-before", pictures / f"{number}-after"
    directory = tmp_path / "t-0"
    shutil.copytree(before, directory)
    log = load(directory)
    cleaner, jobs = make_cleaner(log)
    done = cleaned_offset(before)
    if done is not None:
        cleaner.policy.cleaned[KEY] = done
    kafkas = stored(after)
    # The delete horizons that Kafka's cleaner has set show when it ran.
    known = {batch.delete_horizon_ms for batch in stored(before)}
    (horizon,) = {batch.delete_horizon_ms for batch in kafkas} - known - {None}
    assert horizon is not None
    clean(log, horizon - DELETE_RETENTION_MS, cleaner)
    jobs.run_due()
    assert stored(directory) == kafkas
    assert cleaner.policy.cleaned[KEY] == cleaned_offset(after)
    assert [path.name for path in segment_paths(directory)] == [path.name for path in segment_paths(after)]
    assert aborted(directory) == aborted(after)


def test_the_recording_has_what_a_cleaner_decides_about(pictures: Path) -> None:
    """If this fails, the comparison passes because the recording contains no case to decide."""
    before = [stored(pictures / f"{number}-before") for number in PASSES]
    after = [stored(pictures / f"{number}-after") for number in PASSES]
    for batches in after:
        assert any(batch.delete_horizon_ms is not None for batch in batches)
        assert any(not batch.records for batch in batches), "no batch is kept for its producer alone"
        assert {batch.codec for batch in batches} == {0, 1, 2, 3, 4}
    left = {batch.base_offset for batch in after[2]}
    gone = [batch for batch in before[2] if batch.delete_horizon_ms is not None and batch.base_offset not in left]
    assert any(not batch.control for batch in gone), "no tombstone went"
    assert {batch.kind for batch in gone if batch.control} == {0, 1}, "no marker of an abort, or of a commit, went"
    assert len(aborted(pictures / "first-before")) > 1
