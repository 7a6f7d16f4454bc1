"""The command `broker-sql`: the editor, and statements of a file or of the command line."""

from __future__ import annotations

import contextlib
import importlib
import os
import ssl
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from broker_cy.client import options
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end, version_text
from broker_sql.client import Server, SqlClient
from broker_sql.terminal.editor import Editor, history_path
from broker_sql.terminal.own_server import own_server
from broker_sql.terminal.program import PROGRAM, Terminal
from broker_sql.terminal.session import read_script

SERVER_VARIABLE: Final = "BROKER_SQL_SERVER"
DEFAULT_SERVER: Final = "http://127.0.0.1:8088"
PASSWORD_VARIABLE: Final = "BROKER_SQL_PASSWORD"
EPILOG: Final = """\b
examples:
  broker-sql                                     the editor, at the server on 127.0.0.1:8088
  broker-sql --bootstrap broker-1:9092           the editor, with a server of its own for this cluster
  broker-sql --server http://sql-1:8088 -f statements.sql
  broker-sql -e "SHOW STREAMS;" --output json    one line of JSON for each result
  broker-sql -e "SELECT * FROM orders EMIT CHANGES LIMIT 5;" --set auto.offset.reset=earliest
"""
# Further commands: the module that has `command`, which is imported when its command is used.
COMMANDS: Final[dict[str, str]] = {"server": "broker_sql.server.cli"}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            found: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
            return found
        return super().get_command(ctx, cmd_name)


def _pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE of an option that may be repeated."""
    pairs = {}
    for each in values:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise click.BadParameter(f"{each!r}: NAME=VALUE is expected")
        pairs[name] = value
    return pairs


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@options.click_options(bootstrap={"help": "Brokers of a cluster: a server of SQL runs with the terminal."})
@click.option(
    "--server",
    metavar="URL",
    help=f"The server: http://HOST:PORT or https://HOST:PORT.  [default: ${SERVER_VARIABLE}, or {DEFAULT_SERVER}]",
)
@click.option("--user", metavar="NAME", help="Login at the server; the password is asked for.")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"The password of --user is the first line of this file.  [default: ${PASSWORD_VARIABLE}]",
)
@click.option(
    "--ca-file", type=click.Path(path_type=Path), metavar="FILE", help="Certificates that sign the server's, as PEM."
)
@click.option("-f", "--file", type=click.Path(path_type=Path), help="Run the statements of this file; - is the input.")
@click.option("-e", "--execute", "texts", multiple=True, metavar="TEXT", help="Run these statements; may be repeated.")
@click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Tables for people, or lines of JSON.",
)
@click.option("--set", "properties", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="As SET; repeatable.")
@click.option(
    "--define", "variables", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="As DEFINE; the same."
)
@click.version_option(message=version_text(PROGRAM), version="")
@click.pass_context
def command(
    context: click.Context,
    /,
    server: str | None,
    user: str | None,
    password_file: Path | None,
    ca_file: Path | None,
    file: Path | None,
    texts: tuple[str, ...],
    output: str,
    properties: dict[str, str],
    variables: dict[str, str],
    **of_cluster: Any,
) -> None:
    """SQL on streams: statements of ksqlDB, at a server of broker-sql or ksqlDB, or with a server of its own.

    Without -f and -e, the editor opens in a terminal; statements of a pipe are run.
    """
    if context.invoked_subcommand is not None:
        for parameter in context.command.params:
            if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{parameter.opts[0]} is an option of the terminal, not of a command", context)
        return
    as_json = output == "json"
    own = _options_of_own_server(of_cluster)
    try:
        if own and server:
            raise ClientError(Failure.INVALID, f"either --server or {own[0]} is expected")
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(own_server(own)) if own else server
            client = stack.enter_context(SqlClient(_server(server, user, password_file, ca_file)))
            terminal = Terminal(client, as_json=as_json)
            terminal.session.properties.update(properties)
            terminal.session.variables.update({name.upper(): value for name, value in variables.items()})
            context.exit(_run(terminal, file, texts))
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))


def _options_of_own_server(of_cluster: Mapping[str, Any]) -> list[str]:
    """Return the options that select a cluster, for a server of this terminal; none if there are none."""
    words = []
    for option in options.OF_CLUSTER:
        given = of_cluster.get(option.field) or ()
        for value in given if option.is_repeatable else (given,) if given else ():
            words += [option.names[0], str(value)]
    return words


def _run(terminal: Terminal, file: Path | None, texts: tuple[str, ...]) -> int:
    """Run the file, then the texts; the editor or the input without both. Returns the exit code of the first error."""
    scripts = list(texts)
    if file is not None:
        scripts.insert(0, sys.stdin.read() if str(file) == "-" else read_script(file))
    if not scripts:
        if sys.stdin.isatty() and sys.stdout.isatty():
            return terminal.edit(partial(Editor, history=history_path()))
        scripts.append(sys.stdin.read())
    for script in scripts:
        code = terminal.run(script)
        if code:
            return code
    return 0


def _server(url: str | None, user: str | None, password_file: Path | None, ca_file: Path | None) -> Server:
    """Return the server of the options. Raises ClientError."""
    url = url or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or parts.username is not None:
        raise ClientError(Failure.INVALID, "http://HOST:PORT or https://HOST:PORT is expected", what=f"--server {url}")
    context = None
    if ca_file is not None:
        try:
            context = ssl.create_default_context(cafile=str(ca_file))
        except (OSError, ssl.SSLError) as error:
            raise ClientError(Failure.INVALID, str(error), what=f"--ca-file {ca_file}") from None
    login = (user, _password(password_file)) if user else None
    return Server(url.rstrip("/"), context, login)


def _password(file: Path | None) -> str:
    if file is not None:
        lines = read_script(file).splitlines()
        if not lines:
            raise ClientError(Failure.INVALID, "the file is empty", what=f"--password-file {file}")
        return lines[0]
    found = os.environ.get(PASSWORD_VARIABLE)
    if found is not None:
        return found
    if not sys.stdin.isatty():
        raise ClientError(Failure.INVALID, f"--user needs --password-file or ${PASSWORD_VARIABLE} without a terminal")
    asked: str = click.prompt("Password", hide_input=True)
    return asked


def main() -> int:
    """Run the command line; returns the exit code."""
    return options.run_click(PROGRAM, command)
