"""`broker-cy tokens`. The secret of a token, its HMAC, is shown only on request, and is never an argument."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.tokens import DelegationToken, TokenSecret
from broker_cy.client.quantities import DURATION_HELP
from broker_cy.commands.context import Target, cluster_command, dry_run_option, yes_option
from broker_cy.commands.output import confirm, plain, print_json
from broker_cy.commands.values import DURATION
from broker_cy.console.columns import tokens as columns
from broker_cy.reporting.column import Column
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy tokens list --cluster production
  broker-cy tokens create --renewer scheduler --max-lifetime 7d --hmac-file job.hmac
  broker-cy tokens create --owner billing --show-hmac --json
  broker-cy tokens renew gVDMTmt7RKyE1Wkxbn0KmA
  broker-cy tokens expire gVDMTmt7RKyE1Wkxbn0KmA --yes
"""

show_hmac_option = click.option(
    "--show-hmac", is_flag=True, help="Print the HMAC, too: a client with it and the id logs in as the owner."
)


@click.group("tokens", epilog=EPILOG)
def command() -> None:
    """List, create, renew and expire delegation tokens, with which jobs log in as a user without its password."""


@command.command("list", epilog=EPILOG)
@cluster_command
@click.option("--owner", "owners", multiple=True, metavar="USER", help="Only tokens of this user; may be repeated.")
@show_hmac_option
async def list_tokens(target: Target, client: AdminClient, owners: Sequence[str], show_hmac: bool) -> None:
    """List the tokens that the user owns, has asked for, may renew, or has the right to see."""
    found = await client.tokens.describe(owners or None)
    _show(target, sorted(found.values(), key=lambda each: each[0].issued_ms), show_hmac=show_hmac)


@command.command("create", epilog=EPILOG)
@cluster_command
@click.option("--owner", metavar="USER", help="Make a token of another user; needs CREATE_TOKENS on it.")
@click.option("--renewer", "renewers", multiple=True, metavar="USER", help="May renew it, too; may be repeated.")
@click.option("--max-lifetime", type=DURATION, metavar="D", help=f"The end of its life, {DURATION_HELP}.")
@click.option(
    "--hmac-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the HMAC to this new file, which only its owner can read.",
)
@show_hmac_option
async def create(
    target: Target,
    client: AdminClient,
    owner: str | None,
    renewers: Sequence[str],
    max_lifetime: int | None,
    hmac_file: Path | None,
    show_hmac: bool,
) -> None:
    """Make a token. `tokens list --show-hmac` shows its HMAC later."""
    target.require_writable()
    file = _new_file(hmac_file) if hmac_file is not None else None
    try:
        token, secret = await client.tokens.create(owner=owner, renewers=renewers, lifetime_ms=max_lifetime)
    except ClientError:
        if file is not None and hmac_file is not None:
            os.close(file)
            hmac_file.unlink()
        raise
    if file is not None:
        with os.fdopen(file, "w") as out:
            out.write(f"{secret.password}\n")
    _show(target, [(token, secret)], show_hmac=show_hmac)


@command.command("renew", epilog=EPILOG)
@cluster_command
@click.argument("token_id", metavar="ID")
@click.option(
    "--for", "period_ms", type=DURATION, metavar="D", help=f"How long it counts from now on, {DURATION_HELP}."
)
async def renew(target: Target, client: AdminClient, token_id: str, period_ms: int | None) -> None:
    """Let a token count longer, at most to the end of its life."""
    target.require_writable()
    expires_ms = await client.tokens.renew(await client.tokens.secret_of(token_id), period_ms)
    _told(target, token_id, expires_ms)


@command.command("expire", epilog=EPILOG)
@cluster_command
@click.argument("token_id", metavar="ID")
@click.option("--in", "period_ms", type=DURATION, metavar="D", help=f"End it after that time, {DURATION_HELP}.")
@dry_run_option
@yes_option
async def expire(
    target: Target, client: AdminClient, token_id: str, period_ms: int | None, dry_run: bool, yes: bool
) -> None:
    """End a token, now or after a time. Clients that have logged in with it are disconnected."""
    target.require_writable()
    secret = await client.tokens.secret_of(token_id)
    if dry_run:
        click.echo(f"would end token {token_id}", err=True)
        return
    confirm(f"Expire token {token_id}?", yes=yes)
    _told(target, token_id, await client.tokens.expire(secret, period_ms))


def _new_file(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ClientError(Failure.INVALID, error.strerror or str(error), what=str(path)) from None


def _told(target: Target, token_id: str, expires_ms: int) -> None:
    if target.as_json:
        print_json({"token_id": token_id, "expires_ms": expires_ms})
    else:
        click.echo(f"token {token_id} counts until {_time(expires_ms)}")


def _show(target: Target, found: Sequence[tuple[DelegationToken, TokenSecret]], *, show_hmac: bool) -> None:
    if target.as_json:
        listed = []
        for token, secret in found:
            fields = plain(token)
            assert isinstance(fields, dict)
            listed.append({**fields, "hmac": secret.password} if show_hmac else fields)
        print_json(listed)
        return
    shown: list[Column[tuple[DelegationToken, TokenSecret]]] = [
        *(column.of(_token) for column in (columns.TOKEN_ID, columns.OWNER, columns.REQUESTER, columns.RENEWERS)),
        columns.ISSUED.by(lambda row: row[0].issued_ms, text=lambda row: _time(row[0].issued_ms)),
        columns.EXPIRES.by(lambda row: row[0].expires_ms, text=lambda row: _time(row[0].expires_ms)),
        columns.END_OF_LIFE.by(lambda row: row[0].max_ms, text=lambda row: _time(row[0].max_ms)),
    ]
    if show_hmac:
        shown.append(Column("hmac", "HMAC", lambda row: row[1].password))
    print_rows(shown, found)


def _token(row: tuple[DelegationToken, TokenSecret]) -> DelegationToken:
    return row[0]


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "never"  # Kafka's largest time
