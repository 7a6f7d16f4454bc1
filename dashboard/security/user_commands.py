"""`broker-dash user`: adds, lists and removes users of the dashboard, in the users file.

Exit codes are those of all programs: 2 for a value or a file that is not valid or cannot be used, 4 if not confirmed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import EXIT_NOT_CONFIRMED, EXIT_USAGE, print_error
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows
from dashboard.security.fields import Table
from dashboard.security.files import invalid
from dashboard.security.roles import Role, Scope
from dashboard.security.users import (
    PASSWORD_CHARACTERS_MAX,
    User,
    check_name,
    default_users_path,
    hash_password,
    load_users,
    remove_user,
    save_user,
)

F = TypeVar("F", bound=Callable[..., Any])


EPILOG = """\b
examples:
  broker-dash user add anna --role admin
  broker-dash user add ben --role operator --topics 'orders*,payments*' --groups 'billing*'
  broker-dash user add ci --role viewer --password-stdin < password.txt
  broker-dash user list
  broker-dash user remove anna
"""


@click.group("user", epilog=EPILOG)
def command() -> None:
    """Add, list and remove users of the dashboard."""


users_option = click.option(
    "--users",
    "users_path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Users file.  [default: that of the dashboard: of dashboard.toml, else dashboard-users.toml next to the "
    "cluster file]",
)


def _name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        return check_name(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _role(ctx: click.Context, param: click.Parameter, value: str) -> Role:
    try:
        return Role.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _patterns(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Parse patterns separated by commas with the checks of the users file."""
    name = param.name or ""
    data: dict[str, Any] = {name: [part.strip() for part in value.split(",") if part.strip()]}
    try:
        found = Table(data, "--", lambda reason: invalid(Path(), reason.removeprefix("--.")), [name]).patterns(name)
    except ClientError as error:
        raise click.BadParameter(error.reason, ctx, param) from None
    if not found:
        raise click.BadParameter(f"{value!r}: patterns separated by commas are expected", ctx, param)
    return found


def _pattern_option(kind: str) -> Callable[[F], F]:
    return click.option(
        f"--{kind}",
        metavar="PATTERN[,..]",
        default="*",
        show_default=True,
        callback=_patterns,
        help=f"Visible {kind}: names with * and ?, separated by commas.",
    )


def _users_file(users_path: Path | None) -> Path:
    """Return the file of --users, else that of the dashboard with the options before `user`. Raises ClientError."""
    chosen: Callable[[], Path] = click.get_current_context().obj or default_users_path
    return users_path or chosen()


name_argument = click.argument("name", callback=_name)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result and errors as JSON.")
_COLUMNS: Final[tuple[Column[User], ...]] = (
    Column("user", "User", lambda row: row.name),
    Column("role", "Role", lambda row: row.role.text),
    Column("clusters", "Clusters", lambda row: ",".join(row.scope.clusters)),
    Column("topics", "Topics", lambda row: ",".join(row.scope.topics)),
    Column("groups", "Groups", lambda row: ",".join(row.scope.groups)),
    Column("unmasked", "Unmasked", lambda row: "yes" if row.scope.unmasked else "no"),
)


@command.command("add", epilog=EPILOG)
@name_argument
@users_option
@click.option(
    "--role",
    metavar="ROLE",
    default="viewer",
    show_default=True,
    callback=_role,
    help="viewer: read-only; operator: also changes topics, groups and offsets; admin: also deletes, and changes "
    "brokers.",
)
@_pattern_option("clusters")
@_pattern_option("topics")
@_pattern_option("groups")
@click.option("--unmasked", is_flag=True, help="Show the fields of records that the masking rules hide.")
@click.option("--replace", is_flag=True, help="Change the user if it exists; its sessions end.")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of the standard input.")
@json_option
def add(
    name: str,
    users_path: Path | None,
    role: Role,
    clusters: tuple[str, ...],
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    unmasked: bool,
    replace: bool,
    password_stdin: bool,
    as_json: bool,
) -> None:
    """Add a user, or change one with --replace. Asks for the password."""
    scope = Scope(clusters, topics, groups, unmasked)
    try:
        path = _users_file(users_path)
        user = User(name, hash_password(_password(password_stdin)), role, scope)
        existed = save_user(path, user, replace=replace)
    except ValueError as error:
        _fail(ClientError(Failure.INVALID, str(error)), EXIT_USAGE)
    except ClientError as error:
        _fail(error, EXIT_USAGE)
    if as_json:
        _print_json({"name": name, "role": role.text, "changed": existed, "file": str(path)})
    else:
        click.echo(f"{'changed' if existed else 'added'} user {name} ({role.text}) in {path}")


@command.command("list", epilog=EPILOG)
@users_option
@json_option
def list_users(users_path: Path | None, as_json: bool) -> None:
    """List all users, without their hashes."""
    try:
        path = _users_file(users_path)
        users = load_users(path)
    except ClientError as error:
        _fail(error, EXIT_USAGE)
    rows = [users[name] for name in sorted(users)]
    if as_json:
        documents = [
            {
                "name": user.name,
                "role": user.role.text,
                "clusters": user.scope.clusters,
                "topics": user.scope.topics,
                "groups": user.scope.groups,
                "unmasked": user.scope.unmasked,
            }
            for user in rows
        ]
        _print_json(documents)
        return
    print_rows(_COLUMNS, rows)


@command.command("remove", epilog=EPILOG)
@name_argument
@users_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@json_option
def remove(name: str, users_path: Path | None, yes: bool, as_json: bool) -> None:
    """Remove a user. Its sessions end at once, also in a running dashboard."""
    try:
        path = _users_file(users_path)
        if name in load_users(path) and not yes:
            _confirm(f"Remove user {name}?")
        left = remove_user(path, name)
    except ClientError as error:
        _fail(error, EXIT_USAGE)
    if as_json:
        _print_json({"removed": name, "users_left": left, "file": str(path)})
    else:
        click.echo(f"removed user {name}; {plural(left, 'user')} left in {path}")


def _password(from_stdin: bool) -> str:
    if from_stdin:
        # One character more than allowed, so that a longer password is refused instead of truncated.
        line = sys.stdin.readline(4 * PASSWORD_CHARACTERS_MAX + 2)
        return line.removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        reason = "cannot ask for the password, because the standard input is not a terminal: add --password-stdin"
        _fail(ClientError(Failure.INVALID, reason), EXIT_USAGE)
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        reason = "cannot ask for confirmation, because the standard input is not a terminal: add --yes. "
        _fail(ClientError(Failure.INVALID, f"{reason}Nothing was changed."), EXIT_NOT_CONFIRMED)
    if not click.confirm(question, default=False, err=True):
        click.echo("Nothing was changed.", err=True)
        raise SystemExit(EXIT_NOT_CONFIRMED)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _fail(error: ClientError, code: int) -> NoReturn:
    print_error("broker-dash", error, as_json=bool(click.get_current_context().params.get("as_json")))
    raise SystemExit(code)
