"""`broker-cy start --shards N` for N > 1: everything is checked before the first process is started."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence

from broker_cy.config import BrokerConfig, places, shard_plan, sources
from broker_cy.core import logs
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.network.sockets import ListenError
from broker_cy.server.ready_line import TEXT_LINE, ReadyLine, StartError
from broker_cy.shards import parent
from broker_cy.shards.children import Child, has_pidfds
from broker_cy.shards.companions import Companion
from broker_cy.shards.node_directory import NodeDirectory, format_new
from broker_cy.storage import shard_directories
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.errors import rights_advice

LOGGER = logging.getLogger("broker_cy.shards")


def run(
    config_file: str | None,
    data_dir: str | None,
    listener: str | None,
    settings: Sequence[str],
    count: int,
    ready: ReadyLine = TEXT_LINE,
    companions: Sequence[Companion] = (),
) -> int:
    """Run `count` shards until a signal arrives, with `companions` beside them, and return the exit code. Raises
    StartError, ConfigError.
    """
    logs.configure()
    properties = sources(config_file, data_dir=data_dir, listener=listener, overrides=settings)
    written = places(config_file, settings)
    found = shard_plan.make(properties, count, written)
    configs = [BrokerConfig.from_properties(each, written) for each in found.shards]
    if not has_pidfds():
        raise StartError(
            f"--shards {count}: this kernel cannot wait for a process by a descriptor: use Linux 5.4 or later"
        )
    cores = len(os.sched_getaffinity(0))
    if count > cores:
        LOGGER.warning("there are more shards than cores", extra=logs.facts(shards=count, cores=cores))
    try:
        return _run(found, configs[0].begins_cluster, ready, companions)
    except (DataDirectoryError, ListenError) as error:
        raise StartError(str(error)) from None
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        raise StartError(f"cannot start: {reason}{rights_advice(error)}") from None


def _run(found: shard_plan.Plan, begins_cluster: bool, ready: ReadyLine, companions: Sequence[Companion]) -> int:
    """Raises DataDirectoryError, ListenError, OSError."""
    shard_directories.check(found)
    directory = NodeDirectory(found.root)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        running: dict[int, Child] = {}
        for shard in range(len(found.shards)):
            child = directory.running(shard)
            if child is not None:
                running[shard] = child
        format_new(found, list(running), begins_cluster, MACHINE_RANDOMNESS.kafka_uuid)
        return parent.run(loop, found, directory, running, ready, companions)
    finally:
        loop.close()
        directory.close()
