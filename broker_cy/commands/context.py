"""Shared parts of the commands: the options for the cluster, the time limit and the output format, and running the body
of a command with a client.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
import uvloop

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.caller import Outcome
from broker_cy.admin.clusters import (
    DEFAULT_BOOTSTRAP,
    ClusterEntry,
    check_timeout,
    default_path,
    find_cluster,
    find_file,
    load_clusters,
)
from broker_cy.admin.collector import relax_collector
from broker_cy.commands.output import EXIT_FAILED, EXIT_UNREACHED, exit_code_of, print_error

P = ParamSpec("P")
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a command works on, its output format, and the cluster file that was named, if any."""

    cluster: ClusterEntry
    as_json: bool
    config: Path | None = None

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

COMMON_OPTIONS = (
    click.option(
        "--bootstrap", metavar="HOST:PORT[,..]", help=f"Brokers to connect to first.  [default: {DEFAULT_BOOTSTRAP}]"
    ),
    click.option(
        "--cluster",
        metavar="NAME",
        help="Name of a cluster in the cluster file.",
        shell_complete=lambda ctx, param, incomplete: complete_clusters(ctx, incomplete),
    ),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Cluster file.  [default: $BROKER_CY_CLUSTERS, or ~/.config/broker-cy/clusters.toml]",
    ),
    click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Settings of a Kafka client with the login, such as client.properties.",
    ),
    click.option("--timeout", "timeout_s", metavar="SECONDS", type=float, help="Time limit of each call."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
)


def cluster_command(job: Job[P]) -> Callable[..., None]:
    """Turn a coroutine function into the body of a command. It receives the Target and a client, and returns the exit
    code (None for 0).
    """

    @functools.wraps(job)
    def body(
        *args: Any,
        bootstrap: str | None,
        cluster: str | None,
        config: Path | None,
        command_config: Path | None,
        timeout_s: float | None,
        as_json: bool,
        **kwargs: Any,
    ) -> None:
        try:
            entry = selected_cluster(bootstrap, cluster, config, timeout_s, command_config)
            target = Target(entry, as_json, config)
        except ClientError as error:
            print_error(error, as_json=as_json)
            raise SystemExit(exit_code_of(error)) from None

        async def run() -> int | None:
            async with target.client() as client:
                return await job(target, client, *args, **kwargs)

        raise SystemExit(run_job(run, as_json))

    # click keeps the last one first: in the help, shared options follow the command's own.
    own = vars(body).pop("__click_params__", [])
    for option in reversed(COMMON_OPTIONS):
        option(body)
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


def selected_cluster(
    bootstrap: str | None,
    name: str | None,
    config: Path | None,
    timeout_s: float | None,
    command_config: Path | None = None,
) -> ClusterEntry:
    """Return the cluster that the options select. Raises ClientError."""
    if bootstrap is not None and name is not None:
        raise ClientError(Failure.INVALID, "--bootstrap and --cluster cannot be used together")
    check_timeout(timeout_s)
    # With an address, the default file is not read: it need not be valid. One that is named may be a setting that was
    # meant for --set, and that would get lost.
    entry = find_cluster(None if bootstrap is not None and config is None else find_file(config, name), bootstrap, name)
    if command_config is not None:
        entry = replace(entry, command_config=command_config)
    return entry if timeout_s is None else replace(entry, timeout_s=timeout_s)


def complete_clusters(ctx: click.Context, incomplete: str) -> list[str]:
    """Return the cluster names in the file that start with `incomplete`."""
    try:
        file = load_clusters(ctx.params.get("config") or default_path())
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
            given = ctx.params
            entry = selected_cluster(
                given.get("bootstrap"), given.get("cluster"), given.get("config"), None, given.get("command_config")
            )
            return asyncio.run(ask(entry))
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
