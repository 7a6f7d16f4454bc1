"""Flows of mirrors that never change."""

from __future__ import annotations

from broker_cy.console.mirrors import FlowPartition, MirrorFlow, MirrorFlows, Note

FLOW = "berlin->frankfurt"
_AT_MS = 1_700_000_000_000


def _part(topic: str, partition: int, end: int, lag: int | None, lag_ms: int | None = 0) -> FlowPartition:
    position = None if lag is None else end - lag
    state = "starting" if lag is None else "running"
    return FlowPartition(topic, partition, f"berlin.{topic}", position, end, lag, lag_ms, state, None)


_PARTITIONS = (
    _part("heartbeats", 0, 12_345, 0),
    _part("orders", 0, 9_007_199_254_740_993, 1_234_567, 192_000),
    _part("orders", 1, 98_765_432, 12, 1_500),
    _part("orders", 2, 0, None, None),
    FlowPartition(
        "taxes \x1b[2J größe", 3, "berlin.taxes", 5, 9, 4, None, "waiting",
        "topic berlin.taxes of the target has 3 partitions, and none for partition 3",
    ),
)  # fmt: skip
_NOTES = (
    Note("circle", "plans", "frankfurt->berlin copies the topic plans back: it is not copied"),
    Note("problem", "sync.topic.acls", "the source answers: the client may not describe the cluster"),
    Note("problem", "taxes-3", "topic berlin.taxes of the target has 3 partitions, and none for partition 3"),
    Note("loop", "frankfurt.invoices", "it comes from frankfurt, and is not copied back"),
    Note("restart", "flow", "the target was away: no broker answers within 30 s", _AT_MS - 3_600_000),
)
FLOWS = MirrorFlows(
    (
        MirrorFlow(
            FLOW,
            "copy",
            "running",
            2,
            _PARTITIONS,
            _NOTES,
            34,
            123_456.7,
            98_765_432.1,
            3,
            120,
            _AT_MS - 12_000,
            _AT_MS - 900,
            _AT_MS,
        ),
        MirrorFlow("eu-west->frankfurt", "copy", "no process", seen_at_ms=_AT_MS),
        MirrorFlow(
            "paris",
            "link",
            "running",
            partitions=(
                FlowPartition("clicks", 0, "clicks", 100, 100, 0, 0, "running", None),
                FlowPartition("clicks", 1, "clicks", 90, 100, 10, 250, "failed", "the source topic was created again"),
            ),
            notes=(Note("problem", "clicks-1", "the source topic was created again"),),
            records_per_s=12.0,
            bytes_per_s=1_200.0,
            seen_at_ms=_AT_MS,
        ),
        MirrorFlow("tokyo->frankfurt", "copy", "waiting", 1, notes=_NOTES[-1:], restarts=9, seen_at_ms=_AT_MS),
    ),
    {"mirror-3:8085": "connection refused"},
)
