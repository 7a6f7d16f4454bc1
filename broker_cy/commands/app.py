"""The command group: its commands' modules are imported when one of them is used, for help and completion as well."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

import click

from broker_cy.client.program import EXIT_INTERRUPTED, EXIT_USAGE
from broker_cy.commands import COMPLETE_VARIABLE, PROGRAM

Start = Callable[[Sequence[str]], int]

# By command: its module (None: in this one; with a dot: in another package), and its help.
COMMANDS: dict[str, tuple[str | None, str]] = {
    "start": (None, "run a broker in the foreground"),
    "storage": (None, "format the directories of a node, or show what they contain"),
    "clusters": ("clusters", "list the clusters of the cluster file, and select the default"),
    "cluster": ("cluster", "brokers, health, features, the metadata quorum, and supported requests"),
    "quorum": ("quorum", "voters and observers of the metadata log; add and remove voters"),
    "brokers": ("brokers", "what each broker holds; drain, cordon and unregister brokers"),
    "reassign": ("reassign", "reassign partitions between brokers, with progress, a throttle and cancel"),
    "leaders": ("leaders", "elect preferred leaders, or unclean ones"),
    "topics": ("topics", "list, describe, create, clone, grow and delete topics"),
    "configs": ("configs", "settings of topics, brokers, groups and loggers"),
    "quotas": ("quotas", "quotas of users, client ids and addresses"),
    "produce": ("produce", "write records from lines, files or JSON"),
    "consume": ("consume", "read records from an offset, a time or the end"),
    "records": ("records", "delete records up to an offset or a time"),
    "groups": ("groups", "list, describe, reset and delete groups"),
    "lag": ("lag", "how far groups are behind, in records and in time"),
    "events": ("events", "recorded events: rebalances, changes and who made them, starts and stops"),
    "metrics": ("metrics", "metrics of brokers: requests and their times, topics, memory, event loop lag"),
    "alerts": ("alerts", "evaluate alert rules: once, or with --follow; optionally notify a webhook"),
    "acls": ("acls", "ACLs: list, create and delete them, and explain which one decides"),
    "users": ("users", "SCRAM users: list, create, alter and delete them"),
    "transactions": ("transactions", "list and describe transactions, find hanging ones, and abort them"),
    "producers": ("producers", "active producers of a topic's partitions"),
    "tokens": ("tokens", "delegation tokens: list, create, renew and expire them"),
    "log-dirs": ("log_dirs", "log directories: disk usage; move replicas between disks, balance and drain them"),
    "schemas": ("broker_registry.commands.schemas", "schemas in a registry: list, compare, check, register, copy"),
    "completion": ("completion", "shell completion for bash, zsh and fish"),
}

# The same commands in the singular, and by the names that the consoles have. `cluster` is a command of its own.
SYNONYMS = {
    name.removesuffix("s"): name for name in COMMANDS if name.endswith("s") and name.removesuffix("s") not in COMMANDS
} | {"delegation-tokens": "tokens", "reassignments": "reassign", "scram-users": "users"}

EPILOG = """\b
examples:
  broker-cy start                                       run a broker on 127.0.0.1:9092, with data under ./data
  broker-cy topics list --bootstrap 127.0.0.1:9092      list all topics, as a table
  broker-cy topics list --cluster production --json     the same for a named cluster, as JSON
  broker-cy consume orders --from -10 -e                print the last ten records of each partition
  broker-cy events --since -1h                          show what happened in the last hour, and who caused it
  broker-cy groups reset billing --to-time -1h          show old and new offsets, and ask before resetting them

\b
exit codes:
  0  success                        3    broker unreachable, or timed out
  1  refused, or partly failed      4    not confirmed; nothing was changed
  2  invalid option or value        130  interrupted
"""


class LazyGroup(click.Group):
    """A command group that imports the module of a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = SYNONYMS.get(name, name)
        if name not in COMMANDS:
            return None
        module, _ = COMMANDS[name]
        if module is None:
            return START if name == "start" else STORAGE
        command = importlib.import_module(module if "." in module else f"broker_cy.commands.{module}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table above, without importing every command."""
        with formatter.section("commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command("start", add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def START(start: Start, arguments: Sequence[str]) -> None:
    """Run a broker in the foreground."""
    raise SystemExit(start(["start", *arguments]))


@click.command("storage", add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def STORAGE(start: Start, arguments: Sequence[str]) -> None:
    """Format the directories of a node, or show what they contain."""
    raise SystemExit(start(["storage", *arguments]))


def _show_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or context.resilient_parsing:
        return
    # Loads the library of TLS.
    from broker_cy.core.tls_version import version_text

    click.echo(version_text())
    context.exit()


@click.group(
    PROGRAM,
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version of this program and of OpenSSL, and exit.",
)
def group() -> None:
    """A Kafka-wire-compatible event broker, and tools to operate it and Apache Kafka."""


def run(argv: Sequence[str], start: Start) -> int:
    """Run a command and return the exit code of the process. `start` runs a broker or formats directories,
    with parsers of its own.
    """
    options = {"prog_name": PROGRAM, "complete_var": COMPLETE_VARIABLE}
    try:
        result = group.main(list(argv), standalone_mode=False, obj=start, **options)
    except click.exceptions.Abort:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except click.ClickException as error:
        # Loads the parsers of security, which `--help` does not need.
        from broker_cy.client.options import click_error

        return click_error(PROGRAM, error, argv)
    except click.exceptions.Exit as error:
        return error.exit_code
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return result if isinstance(result, int) else 0
