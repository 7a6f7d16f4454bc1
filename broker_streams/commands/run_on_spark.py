"""`broker-streams run` on Spark."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from broker_cy.metrics.topics import OWN_CLIENT
from broker_cy.reporting.numbers import plural
from broker_streams.application import Application, ApplicationError
from broker_streams.commands import chosen_host
from broker_streams.commands.context import PROGRAM, client_of
from broker_streams.seen.instance import Surroundings
from broker_streams.seen.settings import SeenSettings


def run(loaded: Sequence[Application], *, master: str | None, once: bool, verbose: bool, as_json: bool) -> None:
    """Run applications in one driver. Raises ClientError, StreamsError, ValueError."""
    if reason := chosen_host.missing():
        raise ApplicationError(
            f"{reason}: pip install 'broker-cy[spark]', or run the application without Spark: --host embedded"
        )
    asyncio.run(_run(loaded, master, once, verbose, as_json))


async def _run(loaded: Sequence[Application], master: str | None, once: bool, verbose: bool, as_json: bool) -> None:
    from broker_streams.hosts.spark.application import SparkApplication
    from broker_streams.hosts.spark.host import SparkHost
    from spark_analytics.errors import SetUpError

    applications = [SparkApplication(each.topology, each.config, each.path.parent) for each in loaded]
    host = SparkHost(applications, master=master, once=once)
    # Spark needs some seconds, on a busy machine a minute.
    print(f"{PROGRAM}: starts Spark", file=sys.stderr, flush=True)
    try:
        host.start(lambda text: print(f"{PROGRAM}: {text}", file=sys.stderr), verbose=verbose)
    except SetUpError as error:
        raise ApplicationError(str(error)) from None
    loop = asyncio.get_running_loop()
    # After the start, as Spark has a handler of its own.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.stop)

    urls: dict[str, str] = {}

    def started() -> None:
        for each in host.applications:
            name, guarantee, url = each.name, each.settings.guarantee, urls[each.name]
            ready = {"application": name, "host": "spark", "guarantee": guarantee, "url": url or None}
            place = f", pages at {url}" if url else ""
            text = f"{PROGRAM}: runs {name} on Spark ({guarantee}){place}"
            print(json.dumps(ready) if as_json else text, flush=True)

    async with AsyncExitStack() as stack:
        for application, loaded_one in zip(host.applications, loaded, strict=True):
            seen = SeenSettings.of(application.config)
            events = partial(client_of, loaded_one, OWN_CLIENT) if seen.writes_events else None
            instance = await stack.enter_async_context(Surroundings(application, seen, events=events))
            urls[application.name] = instance.url
        await host.run(started)
    if once:
        for each in host.applications:
            batches, records = (
                sum(getattr(of.figures, kind) for of in each.queries) for kind in ("batches", "records")
            )
            ended = {"application": each.name, "batches": batches, "records": records}
            counted = f"{plural(records, 'record')} in {plural(batches, 'batch', 'batches')}"
            text = f"{PROGRAM}: {each.name} has processed {counted}"
            print(json.dumps(ended) if as_json else text, flush=True)
