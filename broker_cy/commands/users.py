"""`broker-cy users`."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.scram_users import CredentialKey, NewCredential, is_unknown
from broker_cy.client.parsed import Parsed
from broker_cy.commands.context import Target, cluster_command, completer, dry_run_option, yes_option
from broker_cy.commands.output import confirm, print_json
from broker_cy.commands.passwords import password_of, password_options
from broker_cy.console.columns import access
from broker_cy.console.values import parse_int
from broker_cy.core import scram
from broker_cy.core.classes import NamedTuple
from broker_cy.core.scram import Mechanism
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy users list
  broker-cy users create alice                                    ask for the password
  broker-cy users create alice --password-file alice.txt --iterations 8192
  broker-cy users alter alice --mechanism SCRAM-SHA-256 --password-env ALICE_PASSWORD
  broker-cy users delete alice --yes
"""

NAMES = [each.name for each in scram.MECHANISMS]
# The stronger one.
DEFAULT = scram.MECHANISMS[-1]


def _parse_mechanism(text: str) -> Mechanism:
    found = scram.of_name(text.upper())
    if found is None:
        raise ValueError(f"{text!r} is no mechanism of SCRAM: allowed are {', '.join(NAMES)}")
    return found


MECHANISM = Parsed("mechanism", _parse_mechanism)
ITERATIONS = Parsed("iterations", lambda text: parse_int(text, scram.ITERATIONS_MIN, scram.ITERATIONS_MAX))
# More than Kafka's tools set by default, which is the least that is allowed.
ITERATIONS_DEFAULT = 8_192


async def _names(client: AdminClient) -> list[str]:
    return list((await client.scram_users.describe()).found)


user_argument = click.argument("user", shell_complete=completer(_names))
mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=MECHANISM,
    metavar="NAME",
    multiple=True,
    help=f"{' or '.join(NAMES)}; may be repeated.",
)
iterations_option = click.option(
    "--iterations",
    type=ITERATIONS,
    default=str(ITERATIONS_DEFAULT),
    metavar="COUNT",
    help=f"Iterations of the hash, {scram.ITERATIONS_MIN} to {scram.ITERATIONS_MAX}.  [default: {ITERATIONS_DEFAULT}]",
)


class Credentials(NamedTuple):
    """The credentials that a user is to have, as the options of a command name them."""

    user: str
    mechanisms: Sequence[Mechanism]
    iterations: int
    password_file: str | None
    password_env: str | None

    def password(self) -> str:
        return password_of(self.password_file, self.password_env, self.user)


def credential_options(job: Callable[[Target, AdminClient, Credentials], Awaitable[int]]) -> Callable[..., Any]:
    """The user, --mechanism, --iterations and the options of passwords, as Credentials for `job`."""

    @user_argument
    @mechanism_option
    @iterations_option
    @password_options
    @functools.wraps(job)
    async def body(target: Target, client: AdminClient, **options: Any) -> int:
        return await job(target, client, Credentials(**options))

    return body


@click.group("users", epilog=EPILOG)
def command() -> None:
    """SCRAM users: those that log in with SCRAM-SHA-256 or SCRAM-SHA-512.

    Credentials are in the metadata of the cluster. A change counts with the next login; connections stay.
    """


@command.command("list", epilog=EPILOG)
@cluster_command
@click.argument("users", nargs=-1)
async def list_users(target: Target, client: AdminClient, users: Sequence[str]) -> int:
    """List users, all or those that are named, with their mechanisms and iterations."""
    outcome = await client.scram_users.describe(users or None)
    found = [each for credentials in outcome.found.values() for each in credentials]
    if target.as_json:
        print_json(found)
    else:
        print_rows((access.USER, access.MECHANISM, access.ITERATIONS), found)
    return target.tell_failures([outcome])


@command.command("create", epilog=EPILOG)
@cluster_command
@credential_options
async def create(target: Target, client: AdminClient, asked: Credentials) -> int:
    """Create a user, or give one a credential for another mechanism; SCRAM-SHA-512 without --mechanism. The password is
    in a file, a variable of the environment, or asked for.
    """
    target.require_writable()
    wanted = list(dict.fromkeys(asked.mechanisms or (DEFAULT,)))
    there = await _mechanisms(client, asked.user)
    for each in wanted:
        if each.name in there:
            reason = f"has a credential for {each.name} already: use `users alter` to set another password"
            raise ClientError(Failure.REFUSED, reason, what=f"user {asked.user}")
    return await _set(target, client, asked, wanted)


@command.command("alter", epilog=EPILOG)
@cluster_command
@credential_options
async def alter(target: Target, client: AdminClient, asked: Credentials) -> int:
    """Give a user another password. Without --mechanism, for all mechanisms that the user has."""
    target.require_writable()
    there = await _mechanisms(client, asked.user)
    wanted = list(dict.fromkeys(asked.mechanisms)) or _known(there)
    if missing := _missing(wanted, there):
        raise ClientError(Failure.REFUSED, f"{missing}: use `users create`", what=f"user {asked.user}")
    return await _set(target, client, asked, wanted)


@command.command("delete", epilog=EPILOG)
@cluster_command
@user_argument
@mechanism_option
@dry_run_option
@yes_option
async def delete(
    target: Target, client: AdminClient, user: str, mechanisms: Sequence[Mechanism], dry_run: bool, yes: bool
) -> int:
    """Delete the credentials of a user, all or those for --mechanism. ACLs of the user stay."""
    target.require_writable()
    there = await _mechanisms(client, user)
    wanted = list(dict.fromkeys(mechanisms)) or _known(there)
    if missing := _missing(wanted, there):
        raise ClientError(Failure.REFUSED, missing, what=f"user {user}")
    names = ", ".join(each.name for each in wanted)
    code = 0
    if not dry_run:
        confirm(f"Delete {names} of user {user}?", yes=yes)
        outcome = await client.scram_users.alter({CredentialKey(user, each): None for each in wanted})
        code = target.tell_failures([outcome])
        wanted = [key.mechanism for key in outcome.found]
    if target.as_json:
        print_json({"user": user, "deleted": [each.name for each in wanted], "dry_run": dry_run})
    elif dry_run:
        click.echo(f"would delete {names} of user {user}")
    elif wanted:
        click.echo(f"deleted {plural(len(wanted), 'credential')} of user {user}")
    return code


def _missing(wanted: Sequence[Mechanism], there: Sequence[str]) -> str:
    """Describe the missing credential of a user with credentials for `there`; empty if none is missing."""
    if not there:
        return "has no credentials"
    lacking = [each.name for each in wanted if each.name not in there]
    return f"has no credential for {lacking[0]}, only {', '.join(there)}" if lacking else ""


def _known(names: Sequence[str]) -> list[Mechanism]:
    return [each for each in map(scram.of_name, names) if each is not None]


async def _mechanisms(client: AdminClient, user: str) -> list[str]:
    """The mechanisms that a user has credentials for; none for an unknown user."""
    outcome = await client.scram_users.describe([user])
    for error in outcome.failed.values():
        if not is_unknown(error):
            raise error
    return [each.mechanism for credentials in outcome.found.values() for each in credentials]


async def _set(target: Target, client: AdminClient, asked: Credentials, mechanisms: Sequence[Mechanism]) -> int:
    new = NewCredential(asked.password(), asked.iterations)
    outcome = await client.scram_users.alter({CredentialKey(asked.user, each): new for each in mechanisms})
    done = [key.mechanism.name for key in outcome.found]
    if target.as_json:
        print_json({"user": asked.user, "set": done, "iterations": asked.iterations})
    elif done:
        click.echo(f"set {', '.join(done)} of user {asked.user}, with {asked.iterations:,} iterations")
    return target.tell_failures([outcome])
