"""`broker-streams run` on Spark."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence

from broker_streams.application import Application, ApplicationError
from broker_streams.commands import chosen_host
from broker_streams.commands.context import PROGRAM


def run(loaded: Sequence[Application], *, master: str | None, once: bool, verbose: bool, as_json: bool) -> None:
    """Run applications in one driver. Raises ClientError, StreamsError, ValueError."""
    if reason := chosen_host.missing():
        raise ApplicationError(
            f"{reason}: pip install 'broker-cy[spark]', or run the application without Spark: --host embedded"
        )
    asyncio.run(_run(loaded, master, once, verbose, as_json))


async def _run(loaded: Sequence[Application], master: str | None, once: bool, verbose: bool, as_json: bool) -> None:
    from broker_streams.hosts.spark.host import SparkApplication, SparkHost
    from spark_analytics.errors import SetUpError

    applications = [SparkApplication(each.topology, each.config, each.path.parent) for each in loaded]
    host = SparkHost(applications, master=master, once=once)
    try:
        host.start(lambda text: print(f"{PROGRAM}: {text}", file=sys.stderr), verbose=verbose)
    except SetUpError as error:
        raise ApplicationError(str(error)) from None
    loop = asyncio.get_running_loop()
    # After the start, as Spark has a handler of its own.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.stop)

    def started() -> None:
        for each in host.applications:
            ready = {"application": each.name, "host": "spark", "guarantee": each.settings.guarantee}
            text = f"{PROGRAM}: runs {each.name} on Spark ({each.settings.guarantee})"
            print(json.dumps(ready) if as_json else text, flush=True)

    await host.run(started)
