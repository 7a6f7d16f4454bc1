"""The ids of shards: brokers that one parent process runs on one host (docs/cluster.md).

Shard i of a node has the node's own id plus i * STEP. Ids of nodes are below STEP, so that shards of two nodes never
have the same id, and an id shows its node and its shard.
"""

from __future__ import annotations

from typing import Final

STEP: Final = 1_000
# No machine has more cores for one broker; all ids stay far below the largest one.
SHARDS_MAX: Final = 256


def shard_id(node_id: int, shard: int) -> int:
    """The broker id of a shard of a node."""
    return node_id + shard * STEP


def node_of(broker_id: int) -> int:
    """The id of shard 0 of the node that a broker belongs to; its own id if it is no shard."""
    return broker_id % STEP


def lane_of(broker_id: int) -> int:
    """The number of a broker among the shards of its node; 0 without shards."""
    return broker_id // STEP
