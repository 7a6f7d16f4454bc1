"""What must hold of a broker's partitions after each turn of its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.world.machine import Machine


def check_partitions(machine: Machine) -> None:
    """Raises AssertionError if offsets are not in their order, or if the high watermark or the log start go back."""
    assert machine.server is not None
    for partition in machine.server.broker.partitions:
        if partition.offline is not None or partition.unopened:
            continue
        log = partition.log
        start, watermark, written, end = (
            log.log_start_offset,
            partition.high_watermark,
            log.written_end_offset,
            log.log_end_offset,
        )
        before = machine.high_watermarks.get(partition, 0)
        machine.high_watermarks[partition] = watermark
        name = (machine.host, partition.topic, partition.index)
        assert start <= watermark <= written <= end, f"{name}: {start} <= {watermark} <= {written} <= {end} is wrong"
        assert watermark >= before, f"{name}: the high watermark goes back from {before} to {watermark}"
        stable = log.last_stable_offset(watermark)
        assert max(stable, start) <= watermark, f"{name}: the last stable offset is {stable} of {watermark}"
        if machine.floors:
            floor = machine.floors.get((partition.topic_id, partition.index), 0)
            assert start >= floor, f"{name}: records below {floor} were deleted, and the log starts at {start}"
        if machine.world.plan.is_synced:
            assert watermark <= log.synced_end_offset, f"{name}: {watermark} is readable and not synced"
