"""100,000 partitions: the memory of their image and of the index, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from bench.studies.many_partitions import GOALS, PARTITIONS, loaded


def test_an_image_of_many_partitions_is_small(tmp_path: Path) -> None:
    """If this fails, a cluster of 100,000 partitions needs machines for its metadata alone."""
    figures = loaded(tmp_path, PARTITIONS, 1)
    (megabytes,) = figures["metadata_mb"]  # type: ignore[misc]
    print(f"{megabytes:.1f} MB for {PARTITIONS} partitions")
    assert megabytes < GOALS.at_most["metadata_mb"]
