"""One broker from start to stop.

Start: bind the listeners (so that a port in use is told before anything is touched), open and lock the data directory, load the
metadata, open the partitions, load the coordinators, accept. Stop: read nothing more, finish what was read, flush, write
the clean-shutdown mark, within STOP_S.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from broker_cy.metadata.image import Endpoint
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.server.broker import Broker
from broker_cy.server.connection import Connection, ServerCore
from broker_cy.server.controller_service import ControllerService
from broker_cy.server.group_service import GroupService
from broker_cy.server.listener import Admission, Listener, open_socket
from broker_cy.server.partition_service import PartitionService
from broker_cy.server.registry import load_handlers
from broker_cy.storage.log_manager import LogManager

if TYPE_CHECKING:
    import socket

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock

LOGGER = logging.getLogger("broker_cy.server")

# Within this an orderly stop answers what was read; the rest of the two seconds is for flushing.
STOP_ANSWERS_S = 1.0
STOP_POLL_S = 0.005
# Threads for cold reads; each reads for one consumer at a time, the others queue.
COLD_READERS = 4
# Threads for fsync, removals and snapshots.
BACKGROUND_WORKERS = 2
IDLE_SWEEPS_PER_TIMEOUT = 10
IDLE_SWEEP_S_MAX = 10.0
STORAGE_TICK_S = 1.0


class BrokerServer:
    """Builds the services, and starts and stops them in order."""

    def __init__(self, config: BrokerConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.clock = clock
        self.loop = loop
        self.broker = Broker(config, clock, loop)
        self.listeners: list[Listener] = []
        self._executor = ThreadPoolExecutor(BACKGROUND_WORKERS, thread_name_prefix="background")
        self._cold_reader = ThreadPoolExecutor(COLD_READERS, thread_name_prefix="cold-read")
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._core: ServerCore
