"""The command `broker-streams`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_cy.client import options
from broker_cy.client.program import version_text
from broker_streams.application import Application, ApplicationError, load
from broker_streams.commands.chosen_host import EMBEDDED, SPARK, chosen
from broker_streams.commands.context import (
    PROGRAM,
    application_argument,
    bootstrap_option,
    changes,
    errors,
    json_option,
    settings_option,
)

if TYPE_CHECKING:
    from broker_streams.plan.topology import Topology

EPILOG: Final = """\b
examples:
  broker-streams run app.py                 run the application, on Spark in this process if it is installed
  broker-streams run app.py --host embedded               in this process, without Spark, in milliseconds
  broker-streams run app.py --master spark://host:7077    on a Spark cluster
  broker-streams run a.py b.py              two applications on Spark in this process
  broker-streams describe app.py            its topology, as Kafka Streams describes it
  broker-streams describe app.py --lineage  the input columns that each output column comes from
  broker-streams test app.py                run the tests in app.test.yaml
  broker-streams diff old.py new.py         records that differ between two versions, on the same input
  broker-streams replay new.py --application-id orders-2    state of a changed application, from history
  broker-streams verify app.py              prove that each result was written exactly once
  broker-streams reset app.py --dry-run     what is deleted so that the application begins again
  broker-streams status                     the applications of a cluster
  broker-streams status APP                 its instances, tasks, lag and stores
  broker-streams query APP STORE KEY        a row of a store, from the instance that has it
"""


# Further commands: the module of the room `commands`, which is imported when its command is used.
COMMANDS: Final = {name: name for name in ("status", "query", "test", "reset", "diff", "replay", "verify")}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        name = COMMANDS[cmd_name]
        found: click.Command = getattr(importlib.import_module(f"broker_streams.commands.{name}"), f"{name}_command")
        return found


@click.group(cls=_Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=version_text(PROGRAM), version="")
def command() -> None:
    """Run applications of the Streams API in Python."""


@command.command()
@click.argument("files", metavar="APP.py...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--host",
    type=click.Choice([SPARK, EMBEDDED]),
    help="spark: Structured Streaming; embedded: this process, without Spark.  [default: brokercy.streams.host, or"
    " spark where PySpark and Java are installed and results are written exactly once]",
)
@click.option("--master", metavar="URL", help="A Spark cluster, spark://HOST:7077.  [default: local[*], this machine]")
@click.option("--once", is_flag=True, help="Process on Spark what the topics have now, and end.")
@click.option("--verbose", is_flag=True, help="Print Spark's log.")
@settings_option
@bootstrap_option
@json_option
@click.pass_context
def run(
    context: click.Context,
    /,
    files: tuple[Path, ...],
    host: str | None,
    master: str | None,
    once: bool,
    verbose: bool,
    changed: tuple[str, ...],
    bootstrap: str | None,
    as_json: bool,
) -> None:
    """Run the application APP.py until SIGTERM or Ctrl-C. All results are written exactly once.

    On Spark, several applications share one driver, and each has one driver. With --host embedded, several processes
    with the same application.id divide its tasks among them, and processing.guarantee may be at_least_once.
    """
    with errors(context, as_json=as_json):
        given = changes(changed, bootstrap)
        logging.basicConfig(format=f"{PROGRAM}: %(message)s", level=logging.WARNING)
        applications = [load(each, given) for each in files]
        found = chosen(host, applications, for_spark=master is not None or once or verbose)
        if found.host == SPARK:
            from broker_streams.commands.run_on_spark import run as run_on_spark

            run_on_spark(applications, master=master, once=once, verbose=verbose, as_json=as_json)
            return
        if master is not None or once or verbose:
            raise ApplicationError("--master, --once and --verbose are for Spark: --host spark")
        if len(files) > 1:
            raise ApplicationError(f"{len(files)} applications are given; --host embedded runs one in a process")
        if found.reason:
            print(f"{PROGRAM}: runs without Spark: {found.reason} (--host embedded leaves this out)", file=sys.stderr)
        (application,) = applications
        # Imported before the loop runs: it must not wait for imports while the process is a member of the group.
        import uvloop

        from broker_streams.hosts.embedded import host as _host

        assert _host is not None
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(application, as_json=as_json))


async def _run(application: Application, *, as_json: bool) -> None:
    from broker_streams.seen.instance import instance_of

    async with instance_of(application.topology, application.config, str(application.path)) as instance:
        host = instance.host
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, host.stop)
        application_id, guarantee = host.settings.application_id, host.settings.guarantee
        ready: dict[str, str | None] = {
            "application": application_id,
            "host": "embedded",
            "guarantee": guarantee,
            "url": instance.url or None,
        }
        place = f", pages at {instance.url}" if instance.url else ""
        text = f"{PROGRAM}: runs {application_id} ({guarantee}){place}"
        print(json.dumps(ready) if as_json else text, flush=True)
        await host.run()


@command.command()
@application_argument
@settings_option
@click.option(
    "--lineage", is_flag=True, help="Print which columns of input topics each column of an output topic comes from."
)
@json_option
@click.pass_context
def describe(context: click.Context, /, file: Path, changed: tuple[str, ...], lineage: bool, as_json: bool) -> None:
    """Print the topology of APP.py: Kafka Streams' text, or the whole plan as JSON.

    For --lineage, the functions of the application are called with values that note their uses. Functions of peek and
    foreach, and processors, are not called.
    """
    with errors(context, as_json=as_json):
        from broker_streams.plan import codec
        from broker_streams.plan import describe as text

        topology = load(file, changes(changed)).topology
        if lineage:
            print(_lineage(topology, as_json=as_json), end="\n" if as_json else "")
            return
        print(codec.to_json(topology) if as_json else text.describe(topology), end="\n" if as_json else "")


def _lineage(topology: Topology, *, as_json: bool) -> str:
    from broker_streams.plan.lineage import columns
    from broker_streams.plan.lineage.of_plan import lineage_of

    # Functions of the application may print.
    with contextlib.redirect_stdout(sys.stderr):
        found = lineage_of(topology)
    return columns.to_json(found) if as_json else columns.to_text(found)


def main() -> int:
    """Run the command line; returns the exit code."""
    return options.run_click(PROGRAM, command)
