"""How far a mirror is behind its source."""

from __future__ import annotations

from broker_cy.replication.mirror_progress import Progress

SILENCE_MS = 1_500


def lag_ms(progress: Progress, now_ms: int) -> int | None:
    return progress.lag_ms(now_ms, SILENCE_MS)


def test_the_lag_is_not_known_before_the_source_has_answered() -> None:
    """If this fails, a mirror that has copied nothing counts as complete, and is promoted."""
    progress = Progress()
    assert (progress.lag_records(), lag_ms(progress, 9_000)) == (None, None)
    progress.answered(0, 500, 10_000)
    assert (progress.lag_records(), lag_ms(progress, 10_000)) == (500, None)


def test_the_lag_in_time_begins_when_the_mirror_had_everything() -> None:
    """If this fails, an alert about the lag comes late, or for a mirror that has everything."""
    progress = Progress()
    progress.answered(500, 500, 10_000)
    assert (progress.lag_records(), lag_ms(progress, 10_900)) == (0, 0)
    progress.answered(500, 700, 12_000)
    assert (progress.lag_records(), lag_ms(progress, 12_500)) == (200, 2_500)
    progress.seen(12_400)
    assert lag_ms(progress, 12_500) == 2_500, "an answer about other partitions is none about this one"
    progress.answered(700, 700, 13_000)
    assert (progress.lag_records(), lag_ms(progress, 13_000)) == (0, 0)


def test_a_silent_source_makes_the_lag_grow() -> None:
    """If this fails, the lag of a mirror stays 0 while its source cannot be reached."""
    progress = Progress()
    progress.answered(500, 500, 10_000)
    progress.seen(20_000)
    assert lag_ms(progress, 20_000 + SILENCE_MS) == 0
    assert lag_ms(progress, 20_001 + SILENCE_MS) == SILENCE_MS + 1
    assert progress.lag_records() == 0


def test_rates_are_of_ten_seconds() -> None:
    """If this fails, consoles show the throughput of a mirror that has ended."""
    progress = Progress()
    for second in range(10):
        progress.copied(100, 5_000, second * 1_000)
    assert progress.per_s(9_999) == (1_000 * 1000 / 9_999, 50_000 * 1000 / 9_999)
    assert progress.per_s(30_000) == (0.0, 0.0)
    assert (progress.records, progress.bytes) == (1_000, 50_000)
