"""Compaction against a model in plain Python, for any mix of keys, tombstones, transactions, producers and codecs."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.storage.cleaner.log_cleaner import CleanerSettings
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles
from tests.broker_cy.storage.cleaning import (
    KEY,
    Written,
    compacted_config,
    expected,
    make_cleaner,
    stored,
)
from tests.sim.real_partitions import new_directory

KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c", b"key-8byt", b"a longer key than eight"]))
VALUES = st.one_of(st.none(), st.sampled_from([b"", b"v", b"x" * 40]))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
Step = tuple[object, ...]
ONE_STEP = st.one_of(
    st.tuples(st.just("data"), st.integers(-1, 2), st.booleans(), st.integers(0, 4), PAIRS),
    st.tuples(st.just("end"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.integers(0, 3_000)),
)


def cleaned_transaction(producer_id: int, commit: bool, pairs: object) -> list[Step]:
    """A whole transaction, and a cleaning before the next: single steps rarely occur in this order."""
    data: Step = ("data", producer_id, True, 0, pairs)
    return [data, ("end", producer_id, commit), ("roll",), ("clean", 0)]


STEPS = st.lists(
    st.one_of(
        ONE_STEP.map(lambda step: [step]),
        st.builds(cleaned_transaction, st.integers(0, 1), st.booleans(), PAIRS),
    ),
    min_size=5,
    max_size=60,
).map(lambda parts: [step for part in parts for step in part])


def reload(log: Log, config: LogConfig) -> Log:
    """Load the log as a start after a kill finds it."""
    context = LoadContext(OpenFiles(), LogTotals(), False, 0, 86_400_000)
    return load_log(log.directory, "t", 0, config, 0, 0, context)


def play(written: Written, step: Step) -> None:
    """Append what a step contains, as far as a coordinator would allow it."""
    if step[0] == "data":
        _, producer_id, transactional, codec, pairs = step
        assert isinstance(producer_id, int)
        in_transaction = producer_id >= 0 and (bool(transactional) or producer_id in written.open_from)
        written.data(pairs, producer_id, transactional=in_transaction, codec=codec)  # type: ignore[arg-type]
    elif step[0] == "end" and step[1] in written.open_from:
        written.end(step[1], commit=bool(step[2]))
    elif step[0] == "roll":
        written.roll()


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([200, 700, 1 << 20]), st.sampled_from([128, 1 << 16]))
def test_what_is_left_is_what_the_model_says(steps: list[Step], segment_bytes: int, buffer_bytes: int) -> None:
    """If this fails, valid records are lost, or deleted ones come back."""
    with new_directory() as root:
        config = compacted_config(segment_bytes=segment_bytes, index_interval_bytes=100)
        log = Log.create(f"{root}/t-0", "t", 0, config, 0)
        written = Written(log)
        cleaner, _ = make_cleaner(log, CleanerSettings(backoff_ms=0, io_buffer_bytes=2 * buffer_bytes))
        for step in [*steps, ("roll",), ("clean", 0), ("clean", 5_000), ("clean", 5_000)]:
            written.now_ms += 1
            if step[0] != "clean":
                play(written, step)
                continue
            assert isinstance(step[1], int)
            written.now_ms += step[1]
            before = stored(log.directory)
            bases = [segment.base_offset for segment in log.segments]
            bound = min(log.active.base_offset, written.last_stable_offset)
            uncleanable = max(base for base in bases if base <= bound)
            dirty = cleaner.policy.cleaned.get(KEY, 0)
            cleaner.tick(written.now_ms, lambda topic, partition: log.written_end_offset)
            assert not cleaner.policy.uncleanable
            if cleaner.policy.cleaned.get(KEY, 0) == dirty:
                assert stored(log.directory) == before
            else:
                assert cleaner.policy.cleaned[KEY] == uncleanable
                wanted = expected(before, written, uncleanable, written.now_ms, 1_000, dirty)
                assert stored(log.directory) == wanted
        # The result is a valid log: its indexes lead to every batch, also after the next start.
        for again in (log, reload(log, config)):
            for batch in stored(log.directory):
                found = again.read_slice(batch.base_offset)
                assert found is not None
                assert found.first_offset == batch.base_offset
            assert again.log_end_offset == log.log_end_offset
        assert not list(Path(root).rglob("*.swap"))
        assert not list(Path(root).rglob("*.cleaned"))
