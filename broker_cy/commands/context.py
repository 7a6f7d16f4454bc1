"""Shared parts of the commands: the options for the cluster, the time limit and the output format, and running the body
of a command with a client.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
import uvloop

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.caller import Outcome
from broker_cy.admin.collector import relax_collector
from broker_cy.client import options
from broker_cy.client.clusters import (
    ClusterEntry,
    default_path,
    load_clusters,
    select,
)
from broker_cy.client.program import EXIT_FAILED, EXIT_UNREACHED, exit_code_of
from broker_cy.commands.output import print_error
from broker_cy.core.classes import dataclass

P = ParamSpec("P")
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a command works on, its output format, and the cluster file that was named, if any."""

    cluster: ClusterEntry
    as_json: bool
    clusters_file: Path | None = None

    def client(self) -> AdminClient:
        cluster = self.cluster
        return AdminClient(
            cluster.bootstrap,
            timeout_s=cluster.timeout_s,
            client_id="broker-cy-cli",
            login=cluster.login,
            tls=cluster.tls,
        )

    def require_writable(self) -> None:
        """Raise ClientError if the configuration file marks the cluster as readonly."""
        if self.cluster.is_readonly:
            reason = "the configuration file marks it as readonly"
            raise ClientError(Failure.REFUSED, reason, what=f"cluster {self.cluster.name}")

    def tell_failures(self, outcomes: Iterable[Outcome[Any, Any]]) -> int:
        """Print the failures of a call and return the exit code."""
        code = 0
        for outcome in outcomes:
            for error in outcome.failed.values():
                print_error(error, as_json=self.as_json)
                code = max(code, EXIT_UNREACHED if exit_code_of(error) == EXIT_UNREACHED else EXIT_FAILED)
        return code


Job = Callable[Concatenate[Target, AdminClient, P], Awaitable[int | None]]


def _common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all commands share."""
    complete: dict[str, Any] = {"shell_complete": lambda ctx, param, incomplete: complete_clusters(ctx, incomplete)}
    for add in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
        click.option("--timeout", "timeout_s", metavar="SECONDS", type=float, help="Time limit of each call."),
        options.click_options(cluster=complete),
    ):
        function = add(function)
    return function


def cluster_command(job: Job[P]) -> Callable[..., None]:
    """Turn a coroutine function into the body of a command. It receives the Target and a client, and returns the exit
    code (None for 0).
    """

    @functools.wraps(job)
    def body(*args: Any, as_json: bool, **kwargs: Any) -> None:
        try:
            wanted = options.take(kwargs)
            target = Target(select(wanted), as_json, wanted.clusters_file)
        except ClientError as error:
            print_error(error, as_json=as_json)
            raise SystemExit(exit_code_of(error)) from None

        async def run() -> int | None:
            async with target.client() as client:
                return await job(target, client, *args, **kwargs)

        raise SystemExit(run_job(run, as_json))

    # click keeps the last one first: in the help, shared options follow the command's own.
    own = vars(body).pop("__click_params__", [])
    _common_options(body)
    vars(body)["__click_params__"] += own
    return body


def run_job(run: Callable[[], Awaitable[int | None]], as_json: bool) -> int:
    """Run the job to its end and return the exit code."""

    async def inside() -> int | None:
        return await run()

    relax_collector()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(inside()) or 0
    except ClientError as error:
        print_error(error, as_json=as_json)
        return exit_code_of(error)
    except BrokenPipeError:
        # The reader of the output has closed it (`| head`): not an error, and nothing must be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise click.exceptions.Abort from None


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Cancel this task at SIGTERM and SIGHUP, as the loop's runner does at Ctrl-C."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    added = []
    for number in (signal.SIGTERM, signal.SIGHUP):
        try:
            loop.add_signal_handler(number, task.cancel)
        except (ValueError, RuntimeError):
            # Not in the main thread, where only tests run: signals go elsewhere.
            break
        added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)


def complete_clusters(ctx: click.Context, incomplete: str) -> list[str]:
    """Return the cluster names in the file that start with `incomplete`."""
    try:
        file = load_clusters(ctx.params.get("clusters_file") or default_path())
    except ClientError:
        return []
    return sorted(name for name in file.clusters if name.startswith(incomplete))


def completer(names: Callable[[AdminClient], Awaitable[Iterable[str]]]) -> Callable[..., list[str]]:
    """Return a completion that queries the cluster of the options typed so far, and completes nothing if the cluster
    does not answer within a second.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        async def ask(entry: ClusterEntry) -> list[str]:
            async with AdminClient(entry.bootstrap, timeout_s=1.0, login=entry.login, tls=entry.tls) as client:
                return sorted(name for name in await names(client) if name.startswith(incomplete))

        try:
            return asyncio.run(ask(select(options.wanted({**ctx.params, "timeout_s": None}))))
        except (ClientError, OSError):
            return []

    return complete


async def _topic_names(client: AdminClient) -> list[str]:
    return [topic.name for topic in await client.topics.list_all()]


async def _group_ids(client: AdminClient) -> list[str]:
    return [group.group_id for group in await client.groups.listed()]


complete_topics = completer(_topic_names)
complete_groups = completer(_group_ids)

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done, without changing anything.")
