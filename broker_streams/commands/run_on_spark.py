"""`broker-streams run --host spark`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from broker_streams.application import ApplicationError, load
from broker_streams.commands.context import PROGRAM


def run(
    files: Sequence[Path], changed: Mapping[str, str], *, master: str | None, once: bool, verbose: bool, as_json: bool
) -> None:
    """Run applications in one driver. Raises ClientError, StreamsError, ValueError."""
    if find_spec("pyspark") is None:
        raise ApplicationError(
            "Spark is missing: pip install 'broker-cy[spark]', or run the application without it: --host embedded"
        )
    asyncio.run(_run(files, changed, master, once, verbose, as_json))


async def _run(
    files: Sequence[Path], changed: Mapping[str, str], master: str | None, once: bool, verbose: bool, as_json: bool
) -> None:
    from broker_streams.hosts.spark.host import SparkApplication, SparkHost
    from spark_analytics.errors import SetUpError

    loaded = [load(each, changed) for each in files]
    host = SparkHost([SparkApplication(each.topology, each.config, each.path.parent) for each in loaded], master=master)
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
