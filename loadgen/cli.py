"""The command `broker-load`: load on a Kafka-compatible cluster by simulated clients. See docs/loadgen.md.

Exit codes: those of all programs (broker_cy.client.program), and verdicts from 10 (loadgen.command).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker_cy import __version__
from broker_cy.client import options as cluster_options
from broker_cy.client.address import Address, parse_address
from broker_cy.client.clusters import ClusterEntry, Wanted, select
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import EXIT_FAILED, EXIT_INTERRUPTED, end, wants_json
from loadgen.command import PROGRAM
from loadgen.scenario.model import Scenario
from loadgen.scenario.overrides import OVERRIDES
from loadgen.scenario.toml_file import builtin_names, read_scenario

if TYPE_CHECKING:
    from loadgen.report.result import Result

DEFAULT_SCENARIO = "mixed"
MASTER_PORT = 5557  # locust's own
WEB_PORT = 8089  # locust's own
PROCESSES_MAX = 256
# Options for the files of a result.
FILES = {
    "html": "Write the result as a page.",
    "json-file": "Write the result as JSON.",
    "junit": "Write the verdicts as JUnit XML.",
}
EPILOG = """\b
examples:
  broker-load run --bootstrap 127.0.0.1:9092 --scenario mixed --rate 5000/s --duration 60s
  broker-load run --scenario scenario.toml --processes 2 --html report.html --json-file result.json --junit result.xml
  broker-load run --registry http://127.0.0.1:8081 --value-subject orders-value --scenario produce-throughput
  broker-load web --bootstrap 127.0.0.1:9092
  broker-load master --workers 2 --scenario soak          on one host, and on each of the others
  broker-load worker --master HOST
"""


class Program(click.Group):
    """Ends with the exit codes of all programs."""

    def main(self, args: Any = None, *more: Any, **extra: Any) -> Any:
        argv = list(sys.argv[1:] if args is None else args)
        try:
            return super().main(argv, *more, **{**extra, "standalone_mode": False})
        except ClientError as error:
            sys.exit(end(PROGRAM, error, as_json=wants_json(argv)))
        except click.ClickException as error:
            sys.exit(cluster_options.click_error(PROGRAM, error, argv))
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)


@click.group(cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
def command() -> None:
    """Generate load with simulated clients, and check what they wrote."""


def _of_scenario(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select and change a scenario."""
    for each in reversed(OVERRIDES.values()):
        function = click.option(
            f"--{each.name}", metavar=each.metavar, help=f"{each.help[:1].upper()}{each.help[1:]}."
        )(function)
    names = ", ".join(builtin_names())
    function = click.option(
        "--scenario",
        default=DEFAULT_SCENARIO,
        metavar="NAME|FILE",
        help=f"A file, or one of: {names}.",
        show_default=True,
    )(function)
    return cluster_options.click_options((*cluster_options.OF_CLUSTER, *cluster_options.OF_REGISTRY))(function)


def _field(name: str) -> str:
    return f"{name.replace('-', '_')}_path"


_of_processes = click.option(
    "--processes", type=click.IntRange(1, PROCESSES_MAX), default=1, show_default=True, help="Worker processes."
)


def _of_report(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the output of the result."""
    for name, text in reversed(FILES.items()):
        path = click.Path(dir_okay=False, path_type=Path)
        function = click.option(f"--{name}", _field(name), type=path, metavar="FILE", help=text)(function)
    function = cluster_options.json_flag("Print the result as JSON, instead of the summary.")(function)
    return click.option("--quiet", is_flag=True, help="Show no progress.")(function)


@command.command()
@_of_scenario
@_of_report
@_of_processes
def run(scenario: str, processes: int, **options: Any) -> None:
    """Run a scenario, and judge it."""
    cluster = _cluster(options)
    _run(_encoded(scenario, options, cluster), cluster.bootstrap, options, processes=processes)


@command.command()
@_of_scenario
@_of_report
@click.option("--workers", type=click.IntRange(1, PROCESSES_MAX), required=True, help="Number of workers to wait for.")
@click.option(
    "--listen", default=f"0.0.0.0:{MASTER_PORT}", metavar="HOST[:PORT]", show_default=True, help="Address for workers."
)
def master(scenario: str, workers: int, listen: str, **options: Any) -> None:
    """Run a scenario with workers on other hosts."""
    cluster, address = _cluster(options), _address("--listen", listen, MASTER_PORT)
    _run(_encoded(scenario, options, cluster), cluster.bootstrap, options, workers=workers, listen=address)


@command.command()
@cluster_options.click_options(cluster_options.OF_LOGIN)
@click.option("--master", required=True, metavar="HOST[:PORT]", help=f"The master; port {MASTER_PORT} by default.")
@click.option("--json", "as_json", is_flag=True, help="Print errors as JSON.")
def worker(master: str, as_json: bool, **options: Any) -> None:
    """Generate a part of the load of a master, until it ends. The master says where the cluster is."""
    wanted = cluster_options.take(options)
    from loadgen.net import login

    # A worker that a run started has the login from the environment.
    if wanted != Wanted() or not login.is_inherited():
        login.choose(select(wanted))
    address = _address("--master", master, MASTER_PORT)
    from loadgen.headless import run_worker

    run_worker(address)


@command.command()
@_of_scenario
@click.option(
    "--listen", default=f"127.0.0.1:{WEB_PORT}", metavar="HOST[:PORT]", show_default=True, help="Address of the page."
)
@_of_processes
@click.option("--json", "as_json", is_flag=True, help="Print the address and errors as JSON.")
def web(scenario: str, listen: str, processes: int, as_json: bool, **options: Any) -> None:
    """Serve locust's web page, with two further tabs."""
    cluster, address = _cluster(options), _address("--listen", listen, WEB_PORT)
    wanted = _encoded(scenario, options, cluster)
    from loadgen.web.server import serve

    sys.exit(serve(wanted, cluster.bootstrap, address, processes=processes, as_json=as_json))


@command.command()
@click.argument("scenario")
@click.option("--json", "as_json", is_flag=True, help="Print the users as JSON.")
def check(scenario: str, as_json: bool) -> None:
    """Read a scenario and report its errors."""
    found = _scenario(scenario, {})
    if as_json:
        users = [
            {
                "name": each.name,
                "kind": each.kind,
                "count": each.count,
                "rate": each.rate and each.rate.text,
            }
            for each in found.users
        ]
        click.echo(json.dumps({"scenario": found.name, "users": users}))
        return
    for spec in found.users:
        rate = "as fast as answered" if spec.rate is None else spec.rate.text
        click.echo(f"{spec.name}: {spec.count} x {spec.kind}, {rate}")


def _scenario(source: str, options: dict[str, Any]) -> Scenario:
    chosen = {name: options[key] for name in OVERRIDES if (key := name.replace("-", "_")) in options}
    return read_scenario(source, {name: value for name, value in chosen.items() if value is not None})


def _encoded(source: str, options: dict[str, Any], cluster: ClusterEntry) -> Scenario:
    """Return a scenario whose values of schemas are encoded. Raises ClientError."""
    from loadgen.scenario.encoded import with_encoded

    return with_encoded(_scenario(source, options), cluster)


def _cluster(options: dict[str, Any]) -> ClusterEntry:
    """Take the options of the cluster; its login is that of this process from now on. Raises ClientError."""
    cluster = select(cluster_options.take(options))
    from loadgen.net import login

    login.choose(cluster)
    return cluster


def _address(option: str, text: str, default_port: int) -> Address:
    try:
        return parse_address(text, default_port)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what=option) from None


def _run(scenario: Scenario, bootstrap: Sequence[Address], options: dict[str, Any], **workers: Any) -> None:
    """Perform the run, write its result, and exit with its exit code."""
    for name in FILES:
        if (path := options[_field(name)]) is not None and (problem := _problem_of(path)) is not None:
            raise ClientError(Failure.INVALID, f"{path}: {problem}", what=f"--{name}")
    from loadgen.headless import run_headless

    result = run_headless(scenario, bootstrap, quiet=options["quiet"], **workers)
    sys.exit(_write(result, options))


def _problem_of(path: Path) -> str | None:
    """Return why a file cannot be written here, if that is known before the run."""
    if path.exists() and not path.is_file():
        return None if os.access(path, os.W_OK) else "it cannot be written"
    # A file is written in the directory of the one that it replaces.
    if not path.parent.is_dir():
        return f"{path.parent} is no directory"
    return None if os.access(path.parent, os.W_OK | os.X_OK) else f"no file can be created in {path.parent}"


def _write(result: Result, options: dict[str, Any]) -> int:
    """Write the result as the options say; returns the exit code."""
    from loadgen.report import junit, page, text
    from loadgen.report import result as results

    if options["as_json"]:
        click.echo(json.dumps(result.to_dict()))
    else:
        text.show(result)
    exit_code = result.exit_code
    for name, write in (("json-file", results.write), ("html", page.write), ("junit", junit.write)):
        path = options[_field(name)]
        if path is None:
            continue
        try:
            write(result, path)
        except OSError as error:
            # The other files are still written: the run cannot be repeated.
            click.echo(f"{PROGRAM}: --{name}: {path}: {error.strerror}", err=True)
            # A failed write never hides a bad verdict.
            exit_code = exit_code or EXIT_FAILED
    return exit_code


def main() -> None:
    """Run the command."""
    command(prog_name=PROGRAM)
