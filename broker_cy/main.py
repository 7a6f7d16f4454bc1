"""The broker process: real clock, loop and disk, signals, and a one-line error if it cannot start."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from broker_cy import __version__
from broker_cy.config import BrokerConfig, ConfigError, UnknownSettingError, sources, written_at
from broker_cy.core import logs
from broker_cy.core.errors import KafkaError
from broker_cy.metadata.records import MetadataLogError
from broker_cy.quorum.election_state import QuorumError
from broker_cy.server.connections.sockets import ListenError
from broker_cy.server.lifecycle import BrokerServer
from broker_cy.server.metadata.broker_membership import RegistrationRefused
from broker_cy.server.seams import of_the_machine
from broker_cy.server.service_manager import ServiceManager
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.errors import rights_advice

if TYPE_CHECKING:
    from broker_cy.server.controller_lifecycle import ControllerServer

LOGGER = logging.getLogger("broker_cy")

# How long a worker thread may delay the loop; Python's default of 5 ms would be the p99 of producers.
SWITCH_INTERVAL_S = 0.0005


class StartError(Exception):
    """The broker cannot start. The message is one line that says what to do."""


def run(
    config_file: str | None, data_dir: str | None, listener: str | None, settings: Sequence[str], hints: bool = False
) -> int:
    """Run a broker until SIGTERM or SIGINT and return the exit code. With `hints` it prints how to open the console.
    Raises StartError.
    """
    logs.configure()
    try:
        config = BrokerConfig.from_properties(
            sources(config_file, data_dir=data_dir, listener=listener, overrides=settings)
        )
    except UnknownSettingError as error:
        where = written_at(error.name, config_file, settings)
        raise StartError(f"{where}: {error}" if where else str(error)) from None
    except ConfigError as error:
        raise StartError(str(error)) from None
    for event in config.warnings:
        event.log(LOGGER, logging.WARNING)
    raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    seams = of_the_machine(loop)
    manager = ServiceManager(os.environ, seams.clock)
    server: BrokerServer | ControllerServer
    if config.is_broker:
        # Thousands of logs that are there for good need not be looked at again and again.
        server = BrokerServer(config, seams, manager.loading, gc.freeze)
    else:
        from broker_cy.server.controller_lifecycle import ControllerServer

        server = ControllerServer(config, seams)
    try:
        loop.run_until_complete(server.start())
    except (
        ListenError,
        DataDirectoryError,
        MetadataLogError,
        QuorumError,
        ConfigError,
        RegistrationRefused,
    ) as error:
        raise StartError(str(error)) from None
    except KafkaError as error:
        raise StartError(f"cannot start: {error}{rights_advice(error)}") from None
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        raise StartError(f"cannot start: {reason}{rights_advice(error)}") from None
    gc.collect()
    gc.freeze()
    return serve(loop, server, manager, hints)


def serve(
    loop: asyncio.AbstractEventLoop,
    server: BrokerServer | ControllerServer,
    manager: ServiceManager,
    hints: bool = False,
) -> int:
    """Report that the broker is ready, run the loop until a signal arrives, then shut down cleanly."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    async def until_stopped() -> None:
        # Only now: the loop handles a signal that is sent after this line.
        addresses = ", ".join(each.local for each in server.listeners)
        metrics = server.metrics_server
        also = f", metrics on http://{metrics.address}/metrics" if metrics is not None else ""
        print(f"broker-cy {__version__} ready on {addresses} in {since_process_start_s():.2f} s{also}", flush=True)
        if hints and server.listeners and isinstance(server, BrokerServer):
            print(
                f"to open the console, run in another terminal: {console_command(server.listeners[0].local)}",
                flush=True,
            )
        manager.ready(loop, f"ready on {addresses}")
        await stopping.wait()
        started = time.monotonic()
        manager.stopping()
        LOGGER.info("stopping")
        await server.stop()
        LOGGER.info("stopped", extra=logs.facts(seconds=f"{time.monotonic() - started:.2f}"))

    loop.run_until_complete(until_stopped())
    # Only tasks of abandoned requests are left; interpreter shutdown adds nothing to a clean shutdown.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def console_command(address: str) -> str:
    """Return the command line that opens the console: the program beside this interpreter, with a path that works in
    the current directory.
    """
    beside = Path(sys.executable).with_name("broker-tui")
    command = str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)
    host, _, port = address.rpartition(":")
    reached = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}.get(host, host)
    return f"{shlex.quote(command)} --bootstrap {reached}:{port}"


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard limit, because every connection and every open segment uses descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def since_process_start_s() -> float:
    """Return the seconds since the kernel started this process, from /proc (with a precision of 10 ms)."""
    with open("/proc/self/stat", encoding="ascii") as file:
        started_ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
