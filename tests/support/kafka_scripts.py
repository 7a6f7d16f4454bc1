"""Kafka's own scripts (kafka-topics.sh and others) in a directory for the PATH: they start the same classes."""

from __future__ import annotations

import shlex
from pathlib import Path

from bench.launch.kafka_dist import tool_command

_TOOLS = "org.apache.kafka.tools."
SCRIPTS = {
    "kafka-cluster.sh": _TOOLS + "ClusterTool",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-features.sh": _TOOLS + "FeatureCommand",
    "kafka-leader-election.sh": _TOOLS + "LeaderElectionCommand",
    "kafka-log-dirs.sh": _TOOLS + "LogDirsCommand",
    "kafka-metadata-quorum.sh": _TOOLS + "MetadataQuorumCommand",
    "kafka-reassign-partitions.sh": _TOOLS + "reassign.ReassignPartitionsCommand",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": _TOOLS + "TopicCommand",
}


def write_scripts(directory: Path) -> Path:
    """Write the scripts, and return their directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, class_name in SCRIPTS.items():
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(tool_command(class_name))} "$@"\n')
        script.chmod(0o755)
    return directory
