"""The broker process: real clock, loop and disk, signals, and a one-line error if it cannot start."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import uvloop

from broker_cy.config import BrokerConfig, ConfigError, places, sources
from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.core import logs
from broker_cy.core.errors import KafkaError
from broker_cy.metadata.records import MetadataLogError
from broker_cy.network.seams import of_the_machine
from broker_cy.network.sockets import ListenError
from broker_cy.quorum.election_state import QuorumError
from broker_cy.server.lifecycle import BrokerServer
from broker_cy.server.ready_line import TEXT_LINE, ReadyLine, StartError
from broker_cy.server.service_manager import ServiceManager
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.errors import rights_advice

if TYPE_CHECKING:
    from broker_cy.server.controller_lifecycle import ControllerServer
    from broker_cy.shards.companions import Companion, Companions
    from broker_cy.shards.link import Link

LOGGER = logging.getLogger("broker_cy")

# How long a worker thread may delay the loop; Python's default of 5 ms would be the p99 of producers.
SWITCH_INTERVAL_S = 0.0005


def run(
    config_file: str | None,
    data_dir: str | None,
    listener: str | None,
    settings: Sequence[str],
    ready: ReadyLine = TEXT_LINE,
    shard: tuple[int, int] | None = None,
    companions: Sequence[Companion] = (),
) -> int:
    """Run a broker until SIGTERM or SIGINT and return the exit code. `ready` reports that it serves clients. With
    `shard` (its number, and the number of shards) it is one of several under a parent. `companions` run with it. Raises
    StartError, and ConfigError for a wrong setting.
    """
    logs.configure(shard=None if shard is None else shard[0])
    link: Link | None = None
    properties = sources(config_file, data_dir=data_dir, listener=listener, overrides=settings)
    written = places(config_file, settings)
    if shard is not None:
        # Imported here, because a node of one process does not need these modules.
        from broker_cy.config import shard_plan
        from broker_cy.shards import link as links

        plans = shard_plan.make(properties, shard[1], written)
        if not 0 <= shard[0] < shard[1]:
            raise ConfigError(f"--shard {shard[0]}: expected a number from 0 to {shard[1] - 1}")
        properties = plans.shards[shard[0]]
        link = links.Link(links.Shard(shard[0], plans.root, links.digest(properties)))
        link.connect()
    config = BrokerConfig.from_properties(properties, written)
    if shard is None or shard[0] == 0:
        for event in config.warnings:
            event.log(LOGGER, logging.WARNING)
    if companions and not config.is_broker:
        raise ConfigError("--with: programs run beside a broker, and this node is a controller only")
    raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    seams = of_the_machine(loop)
    manager = ServiceManager(os.environ, seams.clock)
    server: BrokerServer | ControllerServer
    try:
        if config.is_broker:
            # gc.freeze: thousands of logs live as long as the process, so collections need not scan them.
            server = BrokerServer(config, seams, manager.loading if link is None else link.load, gc.freeze)
        else:
            from broker_cy.server.controller_lifecycle import ControllerServer

            server = ControllerServer(config, seams)
        loop.run_until_complete(server.start())
    except (
        ListenError,
        DataDirectoryError,
        MetadataLogError,
        QuorumError,
        RegistrationRefused,
    ) as error:
        raise StartError(str(error)) from None
    except KafkaError as error:
        raise StartError(f"cannot start: {error}{rights_advice(error)}") from None
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        raise StartError(f"cannot start: {reason}{rights_advice(error)}") from None
    # Without a collection before: it takes a tenth of a start, and finds less than a megabyte.
    gc.freeze()
    return serve(loop, server, manager, ready, link, companions)


def serve(
    loop: asyncio.AbstractEventLoop,
    server: BrokerServer | ControllerServer,
    manager: ServiceManager,
    ready: ReadyLine = TEXT_LINE,
    link: Link | None = None,
    companions: Sequence[Companion] = (),
) -> int:
    """Report that the broker is ready, to the parent if it is a shard, run the loop until a signal arrives, then shut
    down cleanly. A node that has left the metadata quorum because of a failure ends by itself, as if it were killed:
    its further writes and answers would be useless.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    async def until_stopped() -> str | None:
        """Why the node ends by itself; None if it was asked to."""
        # Only now: the loop handles a signal that is sent after this line.
        listeners = [each.local for each in server.listeners]
        addresses = ", ".join(listeners)
        if link is not None and isinstance(server, BrokerServer):
            link.follow(server, addresses)
        else:
            metrics = server.metrics_server
            ready.print(
                listeners,
                None if metrics is None else metrics.url,
                serves_clients=isinstance(server, BrokerServer),
            )
        manager.ready(loop, f"ready on {addresses}")
        beside = _start_beside(loop, companions, listeners[0]) if companions else None
        halted = server.broker.controller.halted
        asked: asyncio.Future[Any] = loop.create_task(stopping.wait())
        await asyncio.wait({asked, halted}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            return halted.result()
        started = time.monotonic()
        manager.stopping()
        LOGGER.info("stopping")
        if beside is not None:
            await beside.stop()
        await server.stop()
        LOGGER.info("stopped", extra=logs.facts(seconds=f"{time.monotonic() - started:.2f}"))
        return None

    reason = loop.run_until_complete(until_stopped())
    if reason is not None:
        print(f"broker-cy: {reason}", file=sys.stderr)
    # Only tasks of abandoned requests are left; interpreter shutdown adds nothing to a clean shutdown.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if reason is None else 1)


def _start_beside(loop: asyncio.AbstractEventLoop, companions: Sequence[Companion], listener: str) -> Companions:
    """Start the programs of --with, which need a broker that serves."""
    from broker_cy.shards.companions import Companions

    found = Companions(loop, companions, listener)
    found.start()
    return found


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard limit, because every connection and every open segment uses descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
