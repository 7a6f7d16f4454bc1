"""The command `broker-load`: load on a Kafka-compatible cluster by simulated clients. See docs/loadgen.md.

Exit codes: 0 good, 1 a threshold was missed, 2 the generator was the limit, 3 data wrong; 64 an option or a file is
wrong, or the report of a good run could not be written, 69 the run could not be performed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker_cy import __version__
from broker_cy.client.address import Address, parse_address, parse_addresses
from broker_cy.client.toml_file import SpecError
from loadgen.command import DEFAULT_BOOTSTRAP, UNAVAILABLE, WRONG_USE
from loadgen.scenario.model import Scenario
from loadgen.scenario.overrides import OVERRIDES
from loadgen.scenario.toml_file import builtin_names, read_scenario

if TYPE_CHECKING:
    from loadgen.report.result import Result

PROGRAM = "broker-load"
DEFAULT_SCENARIO = "mixed"
MASTER_PORT = 5557  # locust's own
WEB_PORT = 8089  # locust's own
PROCESSES_MAX = 256
# Options for the files of a result.
FILES = {
    "html": "Write the result as a page.",
    "json": "Write the result as JSON.",
    "junit": "Write the verdicts as JUnit XML.",
}
EPILOG = """\b
examples:
  broker-load run --bootstrap 127.0.0.1:9092 --scenario mixed --rate 5000/s --duration 60s
  broker-load run --scenario scenario.toml --processes 2 --html report.html --json result.json --junit result.xml
  broker-load web --bootstrap 127.0.0.1:9092
  broker-load master --workers 2 --scenario soak          on one host, and on each of the others
  broker-load worker --master HOST
"""


class Program(click.Group):
    """Exits with WRONG_USE if options are wrong."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            error.show()
            sys.exit(WRONG_USE)
        except click.Abort:
            sys.exit(130)


@click.group(cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
def command() -> None:
    """Generate load with simulated clients, and check what they wrote."""


def _choose_login(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    from broker_cy.client.errors import ClientError
    from loadgen.net import login

    try:
        login.choose(path)
    except ClientError as error:
        raise click.ClickException(f"--command-config: {error}") from None


_with_login = click.option(
    "--command-config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    callback=_choose_login,
    expose_value=False,
    help="Settings of a Kafka client with the login, such as client.properties.",
)


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
    function = _with_login(function)
    return click.option(
        "--bootstrap", default=DEFAULT_BOOTSTRAP, metavar="HOST:PORT[,..]", help="The cluster.", show_default=True
    )(function)


_of_processes = click.option(
    "--processes", type=click.IntRange(1, PROCESSES_MAX), default=1, show_default=True, help="Worker processes."
)


def _of_report(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the output of the result."""
    for name, text in reversed(FILES.items()):
        path = click.Path(dir_okay=False, path_type=Path)
        function = click.option(f"--{name}", f"{name}_path", type=path, metavar="FILE", help=text)(function)
    return click.option("--quiet", is_flag=True, help="Show no progress.")(function)


@command.command()
@_of_scenario
@_of_report
@_of_processes
def run(bootstrap: str, scenario: str, processes: int, **options: Any) -> None:
    """Run a scenario, and judge it."""
    wanted = _scenario(scenario, options)
    _run(wanted, _addresses(bootstrap), options, processes=processes)


@command.command()
@_of_scenario
@_of_report
@click.option("--workers", type=click.IntRange(1, PROCESSES_MAX), required=True, help="Number of workers to wait for.")
@click.option(
    "--listen", default=f"0.0.0.0:{MASTER_PORT}", metavar="HOST[:PORT]", show_default=True, help="Address for workers."
)
def master(bootstrap: str, scenario: str, workers: int, listen: str, **options: Any) -> None:
    """Run a scenario with workers on other hosts."""
    wanted = _scenario(scenario, options)
    _run(wanted, _addresses(bootstrap), options, workers=workers, listen=_address("--listen", listen, MASTER_PORT))


@command.command()
@_with_login
@click.option("--master", required=True, metavar="HOST[:PORT]", help=f"The master; port {MASTER_PORT} by default.")
def worker(master: str) -> None:
    """Generate a part of the load of a master, until it ends."""
    address = _address("--master", master, MASTER_PORT)
    from loadgen.headless import run_worker

    sys.exit(0 if run_worker(address) else UNAVAILABLE)


@command.command()
@_of_scenario
@click.option(
    "--listen", default=f"127.0.0.1:{WEB_PORT}", metavar="HOST[:PORT]", show_default=True, help="Address of the page."
)
@_of_processes
def web(bootstrap: str, scenario: str, listen: str, processes: int, **options: Any) -> None:
    """Serve locust's web page, with two further tabs."""
    wanted = _scenario(scenario, options)
    addresses, address = _addresses(bootstrap), _address("--listen", listen, WEB_PORT)
    from loadgen.web.server import serve

    code = serve(wanted, addresses, address, processes=processes)
    sys.exit(UNAVAILABLE if code is None else code)


@command.command()
@click.argument("scenario")
def check(scenario: str) -> None:
    """Read a scenario and report its errors."""
    found = _scenario(scenario, {})
    for spec in found.users:
        rate = "as fast as answered" if spec.rate is None else spec.rate.text
        click.echo(f"{spec.name}: {spec.count} x {spec.kind}, {rate}")


def _scenario(source: str, options: dict[str, Any]) -> Scenario:
    chosen = {name: options[key] for name in OVERRIDES if (key := name.replace("-", "_")) in options}
    try:
        return read_scenario(source, {name: value for name, value in chosen.items() if value is not None})
    except SpecError as error:
        raise click.ClickException(str(error)) from None


def _addresses(text: str) -> tuple[Address, ...]:
    try:
        return parse_addresses(text)
    except ValueError as error:
        raise click.ClickException(f"--bootstrap: {error}") from None


def _address(option: str, text: str, default_port: int) -> Address:
    try:
        return parse_address(text, default_port)
    except ValueError as error:
        raise click.ClickException(f"{option}: {error}") from None


def _run(scenario: Scenario, bootstrap: Sequence[Address], options: dict[str, Any], **workers: Any) -> None:
    """Perform the run, write its result, and exit with its exit code."""
    for name in FILES:
        if (path := options[f"{name}_path"]) is not None and (problem := _problem_of(path)) is not None:
            raise click.ClickException(f"--{name}: {path}: {problem}")
    from loadgen.headless import run_headless

    result = run_headless(scenario, bootstrap, quiet=options["quiet"], **workers)
    sys.exit(UNAVAILABLE if result is None else _write(result, options))


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

    text.show(result)
    exit_code = result.exit_code
    for name, write in (("json", results.write), ("html", page.write), ("junit", junit.write)):
        path = options[f"{name}_path"]
        if path is None:
            continue
        try:
            write(result, path)
        except OSError as error:
            # The other files are still written: the run cannot be repeated.
            click.echo(f"{PROGRAM}: --{name}: {path}: {error.strerror}", err=True)
            # A failed write never hides a bad verdict.
            exit_code = exit_code or WRONG_USE
    return exit_code


def main() -> None:
    """Run the command."""
    command(prog_name=PROGRAM)
