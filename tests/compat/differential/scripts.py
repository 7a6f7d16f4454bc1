"""All scripts: importing this module registers them."""

from tests.compat.differential import (
    scripts_cluster,
    scripts_features,
    scripts_fetch,
    scripts_frames,
    scripts_group_offsets,
    scripts_groups,
    scripts_logs,
    scripts_offsets,
    scripts_produce,
    scripts_restart,
    scripts_telemetry,
    scripts_text,
    scripts_topics,
    scripts_transactions,
    scripts_txn_partitions,
    scripts_txn_produce,
)
from tests.compat.differential.script import SCRIPTS

__all__ = [
    "SCRIPTS",
    "scripts_cluster",
    "scripts_features",
    "scripts_fetch",
    "scripts_frames",
    "scripts_group_offsets",
    "scripts_groups",
    "scripts_logs",
    "scripts_offsets",
    "scripts_produce",
    "scripts_restart",
    "scripts_telemetry",
    "scripts_text",
    "scripts_topics",
    "scripts_transactions",
    "scripts_txn_partitions",
    "scripts_txn_produce",
]
