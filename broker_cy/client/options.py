"""The options that select a cluster, its registry and its mirrors, the same in all programs, for click and argparse:

    --bootstrap HOST:PORT[,..], --bootstrap-server, -b    BROKER_CY_BOOTSTRAP
    --cluster NAME, a cluster of the cluster file         BROKER_CY_CLUSTER
    --clusters-file FILE                                  BROKER_CY_CLUSTERS
    --command-config FILE, -X NAME=VALUE                  the login, by the names of Kafka's clients
    --registry URL[,..], --registry-config FILE           BROKER_CY_REGISTRY
    --mirrors HOST:PORT[,..]                              BROKER_CY_MIRRORS

client.clusters turns them into addresses and security. Only the library of the chosen program is imported.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from broker_cy.client import program
from broker_cy.client.clusters import (
    BOOTSTRAP_VARIABLE,
    CLUSTER_VARIABLE,
    DEFAULT_BOOTSTRAP,
    FILE_VARIABLE,
    MIRRORS_VARIABLE,
    REGISTRY_VARIABLE,
    Wanted,
)
from broker_cy.client.security import parse_settings
from broker_cy.core.classes import NamedTuple

if TYPE_CHECKING:
    import click

T = TypeVar("T")


class Option(NamedTuple):
    """An option. `hidden` spellings mean the same, and are not in the help."""

    names: tuple[str, ...]
    field: str
    metavar: str
    help: str
    hidden: tuple[str, ...] = ()
    is_path: bool = False
    is_repeatable: bool = False


BOOTSTRAP: Final = Option(
    ("--bootstrap", "-b"),
    "bootstrap",
    "HOST:PORT[,..]",
    f"Brokers to connect to first.  [default: ${BOOTSTRAP_VARIABLE}, or {DEFAULT_BOOTSTRAP}]",
    hidden=("--bootstrap-server",),
)
CLUSTER: Final = Option(
    ("--cluster",), "cluster", "NAME", f"Name of a cluster in the cluster file.  [default: ${CLUSTER_VARIABLE}]"
)
COMMAND_CONFIG: Final = Option(
    ("--command-config",),
    "command_config",
    "FILE",
    "Settings of a Kafka client with the login, such as client.properties.",
    is_path=True,
)
SETTING: Final = Option(
    ("-X",),
    "client_settings",
    "NAME=VALUE",
    "One such setting, such as security.protocol=SSL; may be repeated.",
    is_repeatable=True,
)
CLUSTERS_FILE: Final = Option(
    ("--clusters-file",),
    "clusters_file",
    "FILE",
    f"Cluster file.  [default: ${FILE_VARIABLE}, or ~/.config/broker-cy/clusters.toml]",
    is_path=True,
)
OF_CLUSTER: Final = (BOOTSTRAP, CLUSTER, CLUSTERS_FILE, COMMAND_CONFIG, SETTING)
# Without an address: for a worker, whose master says where the cluster is.
OF_LOGIN: Final = (CLUSTER, CLUSTERS_FILE, COMMAND_CONFIG, SETTING)
REGISTRY: Final = Option(
    ("--registry",),
    "registry",
    "URL[,..]",
    f"Schema registries to try in turn.  [default: that of the cluster in the cluster file, or ${REGISTRY_VARIABLE}]",
)
REGISTRY_CONFIG: Final = Option(
    ("--registry-config",),
    "registry_config",
    "FILE",
    "Settings of a client of the registry with the login.",
    is_path=True,
)
# For programs that show or write values of records. Without a registry they handle values as bytes.
OF_REGISTRY: Final = (REGISTRY, REGISTRY_CONFIG)
MIRRORS: Final = Option(
    ("--mirrors",),
    "mirrors",
    "HOST:PORT[,..]",
    "The listeners of the processes of broker-mirror (brokercy.mirror.listener).  "
    f"[default: those of the cluster in the cluster file, or ${MIRRORS_VARIABLE}]",
)
# For programs that show the flows of mirrors, or have alerts about them.
OF_MIRRORS: Final = (MIRRORS,)


def wanted(given: Mapping[str, Any]) -> Wanted:
    """Return the cluster that parsed options select. Raises ClientError."""
    return Wanted(
        given.get("bootstrap"),
        given.get("cluster"),
        given.get("command_config"),
        parse_settings(given.get("client_settings") or ()),
        given.get("clusters_file"),
        given.get("timeout_s"),
        given.get("registry"),
        given.get("registry_config"),
        given.get("mirrors"),
    )


def take(given: dict[str, Any]) -> Wanted:
    """As `wanted`; removes the options from the arguments of a command of click."""
    fields = {
        name: given.pop(name, None)
        for name in (*(each.field for each in (*OF_CLUSTER, *OF_REGISTRY, *OF_MIRRORS)), "timeout_s")
    }
    return wanted(fields)


# --- click


def click_options(
    options: Sequence[Option] = OF_CLUSTER, **extra: Mapping[str, Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options to a command; `extra` are further arguments of click by field."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = _click_option(option, extra.get(option.field, {}))(function)
        return function

    return add


def shown_without(*hidden: str) -> type[click.Option]:
    """Return a class of options whose help and errors do not have these spellings."""
    import click

    class Shown(click.Option):
        def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
            return self._shown(lambda: super(Shown, self).get_help_record(ctx))

        def get_error_hint(self, ctx: click.Context | None) -> str:
            return self._shown(lambda: super(Shown, self).get_error_hint(ctx))

        def _shown(self, call: Callable[[], T]) -> T:
            names, self.opts = self.opts, [name for name in self.opts if name not in hidden]
            try:
                return call()
            finally:
                self.opts = names

    return Shown


def _click_option(option: Option, extra: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    import click

    more: dict[str, Any] = {"help": option.help, "multiple": option.is_repeatable}
    if option.is_path:
        more["type"] = click.Path(path_type=Path, dir_okay=False)
    return click.option(
        *option.names,
        *option.hidden,
        option.field,
        cls=shown_without(*option.hidden),
        metavar=option.metavar,
        **{**more, **extra},
    )


def json_flag(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds --json to a command of click whose --json took a file in earlier releases."""
    import click

    def refuse(_: click.Context, __: click.Parameter, value: str | None) -> bool:
        if value:
            raise click.UsageError(old_json(value))
        return value is not None

    # With an optional value, a file gets an error that names the new option.
    return click.option(
        program.JSON_OPTION,
        "as_json",
        is_flag=False,
        flag_value="",
        default=None,
        callback=refuse,
        help=text,
        metavar="",
    )


def old_json(value: str) -> str:
    """Return the error for `--json FILE`."""
    return f"--json takes no value, and prints JSON on the standard output: to write a file, use --json-file {value}"


def click_error(name: str, error: click.ClickException, argv: Sequence[str]) -> int:
    """Report a wrong option of a program with click, and return the exit code."""
    import click

    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not program.wants_json(argv):
        error.show()
        return program.EXIT_USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    usage = "" if context is None else f"{context.get_usage()}\nTry '{context.command_path} --help' for help."
    return program.usage_error(name, error.format_message(), argv, usage)


def run_click(name: str, command: click.Command) -> int:
    """Run the command line of a program with click; returns the exit code."""
    import sys

    import click

    try:
        return int(command.main(prog_name=name, standalone_mode=False) or 0)
    except click.exceptions.Abort:
        return program.EXIT_INTERRUPTED
    except click.ClickException as error:
        return click_error(name, error, sys.argv[1:])


# --- argparse


class Parser(argparse.ArgumentParser):
    """Reports a wrong option as all programs do."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        import sys

        self.given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        name = self.prog.split()[0]
        # In earlier releases, --json took a file.
        unknown = message.removeprefix("unrecognized arguments: ").split()[:1]
        if unknown and ["--json", *unknown] in [list(pair) for pair in itertools.pairwise(self.given)]:
            message = old_json(unknown[0])
        self.exit(program.usage_error(name, message, self.given, self.format_usage()))


def add_arguments(parser: argparse._ActionsContainer, options: Sequence[Option] = OF_CLUSTER) -> None:
    """Add the options to a parser of argparse."""
    for option in options:
        more: dict[str, Any] = {"type": Path} if option.is_path else {}
        if option.is_repeatable:
            more |= {"action": "append", "default": []}
        parser.add_argument(
            *option.names,
            dest=option.field,
            metavar=option.metavar,
            help=option.help[:1].lower() + option.help[1:].replace(".  [", " [").removesuffix("."),
            **more,
        )
        if option.hidden:
            # The default is that of the first spelling.
            more |= {"default": argparse.SUPPRESS}
            parser.add_argument(*option.hidden, dest=option.field, help=argparse.SUPPRESS, **more)


def add_version(parser: argparse.ArgumentParser, name: str) -> None:
    """Add --version."""
    parser.add_argument(
        "--version",
        action="version",
        version=program.version_text(name),
        help="show the version of this program, and exit",
    )
