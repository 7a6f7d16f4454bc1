"""The command `broker-mirror`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.client import options
from broker_cy.client.address import Address, parse_address
from broker_cy.client.mirror_status import ask
from broker_cy.client.program import version_text
from broker_cy.core.config_def.types import ConfigError
from broker_mirror.config import MirrorConfig, load_config
from broker_mirror.flows import Flow, cautions, chosen, flows_of
from broker_mirror.listener import Listener
from broker_mirror.program import PROGRAM, errors
from broker_mirror.promotion import command as promotion
from broker_mirror.promotion import reverse_command
from broker_mirror.proof import command as proof
from broker_mirror.service import Service
from broker_mirror.sharing import Share
from broker_mirror.status import PartitionLag

LISTENER: Final = "brokercy.mirror.listener"
ANSWER_S: Final = 10.0
EPILOG = """\b
examples:
  broker-mirror start mm2.properties                  MirrorMaker 2's own file
  broker-mirror start mm2.properties --clusters B     only the flows into B
  broker-mirror lag mm2.properties                    records that were not copied yet, read from the clusters
  broker-mirror status mm2.properties                 the state of the running process
  broker-mirror verify mm2.properties                 compare the records of both sides
  broker-mirror drill mm2.properties --group billing  what a group would read again after a failover
  broker-mirror promote mm2.properties                fail over: after the last record was copied
"""
T = TypeVar("T")


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=version_text(PROGRAM), version="")
def command() -> None:
    """Copy topics between clusters, with MirrorMaker 2's own file, topics and records."""


def _of_file(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def with_clusters(file: Path, clusters: str, others: tuple[str, ...], *, as_json: bool) -> Any:
        # MirrorMaker 2 separates the aliases by blanks.
        if others and not clusters:
            raise click.UsageError(f"Got unexpected extra argument ({others[0]})")
        return function(file=file, clusters=",".join((clusters, *others)), as_json=as_json)

    done = click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")(with_clusters)
    done = click.option(
        "--clusters", default="", metavar="A B", help="Only the flows into these clusters.  [default: all]"
    )(done)
    done = click.argument("others", nargs=-1, metavar="")(done)
    return click.argument("file", type=click.Path(path_type=Path))(done)


@command.command()
@_of_file
@click.pass_context
def start(context: click.Context, /, file: Path, clusters: str, as_json: bool) -> None:
    """Run the flows of FILE until SIGTERM or Ctrl-C.

    Several processes with the same file divide the partitions among them.
    """
    with errors(context, as_json=as_json):
        config, flows = _flows(file, clusters)
        for warning in (*config.warnings, *(text for flow in flows for text in cautions(flow))):
            print(f"{PROGRAM}: {warning}", file=sys.stderr)
        logging.basicConfig(format=f"{PROGRAM}: %(message)s", level=logging.WARNING)
        # Imported before the loop runs: it must not wait for imports while the process is a member of groups.
        import uvloop

        from broker_mirror.copy.host import CopyFlow

        def copier_of(flow: Flow, source: AdminClient, target: AdminClient, share: Share) -> CopyFlow:
            return CopyFlow(flow, source, target, owner=share.number, owners=share.members)

        service = Service(flows, flows_of(config), copier_of, lambda: int(time.time() * 1000))
        # Unlike asyncio's loop, it sends the parts of a request without joining them.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(service, flows, _listener(config), as_json=as_json))


async def _serve(service: Service, flows: Sequence[Flow], address: Address | None, *, as_json: bool) -> None:
    """Run the service until a signal, and print its flows, and where it reports their status."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with contextlib.AsyncExitStack() as stack:
        url = None
        if address is not None:
            url = (await stack.enter_async_context(Listener(address, service.status))).url
        running = asyncio.create_task(service.run())
        names = [str(flow.pair) for flow in flows]
        place = "" if url is None else f", status at {url}"
        ready = json.dumps({"flows": names, "url": url}) if as_json else f"{PROGRAM}: runs {', '.join(names)}{place}"
        print(ready, flush=True)
        waiting = asyncio.create_task(stopped.wait())
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        for each in (running, waiting):
            each.cancel()
        results = await asyncio.gather(running, waiting, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result


@command.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--address", metavar="HOST:PORT", help=f"The process.  [default: {LISTENER} of FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")
@click.pass_context
def status(context: click.Context, /, file: Path | None, address: str | None, as_json: bool) -> None:
    """Show the flows of a running process, with their problems and restarts."""
    with errors(context, as_json=as_json):
        place = _address(address, "--address") if address else None
        if place is None and file is not None:
            place = _listener(load_config(file))
        if place is None:
            reason = f"no process is named: set {LISTENER}=HOST:PORT in FILE, or use --address HOST:PORT"
            raise ClientError(Failure.INVALID, reason)
        found = asyncio.run(ask(place, ANSWER_S))
        if as_json:
            print(found.to_json().decode())
        else:
            # The columns of the consoles, which a process that copies does not load.
            from broker_mirror.shown import print_status

            print_status(found)


@command.command()
@_of_file
@click.pass_context
def lag(context: click.Context, /, file: Path, clusters: str, as_json: bool) -> None:
    """Show the records of each partition that were not copied yet. It reads both clusters, so no process has to run."""
    with errors(context, as_json=as_json):
        _, flows = _flows(file, clusters)
        found = asyncio.run(_lags([flow for flow in flows if flow.copies]))
        if as_json:
            print(json.dumps([asdict(each) for each in found], ensure_ascii=False))
        else:
            from broker_mirror.shown import print_lags

            print_lags(found)


async def _lags(flows: Sequence[Flow]) -> list[PartitionLag]:
    from broker_mirror.lag import lag_of

    return [each for flow in flows for each in await lag_of(flow)]


# ---------------------------------------------------------------------------------------------------- parts


def _flows(file: Path, clusters: str) -> tuple[MirrorConfig, tuple[Flow, ...]]:
    """Return the flows that --clusters selects. Raises ClientError."""
    config = load_config(file)
    targets = [each.strip() for each in clusters.split(",") if each.strip()]
    try:
        return config, chosen(flows_of(config), targets, config)
    except ConfigError as error:
        raise ClientError(Failure.INVALID, str(error), what=str(file)) from None


def _listener(config: MirrorConfig) -> Address | None:
    text = config.properties.get(LISTENER)
    return None if text is None else _address(text, LISTENER)


def _address(text: str, what: str) -> Address:
    try:
        return parse_address(text, needs_port=True, port_min=0)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what=what) from None


proof.add(command)
promotion.add(command)
reverse_command.add(command)


def main() -> int:
    """Run the command line; returns the exit code."""
    return options.run_click(PROGRAM, command)
