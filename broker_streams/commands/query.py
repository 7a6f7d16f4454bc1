"""`broker-streams query`: rows of a store of an application, from whichever instances have them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import click

from broker_cy.admin.streams_applications import read_application
from broker_cy.client import options
from broker_cy.client.address import Address, parse_address
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.streams_status import ask_rows
from broker_cy.reporting.foreign_text import clean
from broker_streams.commands.context import PROGRAM, client_for, errors, json_option

ANSWER_S: Final = 15.0
PAGE_ROWS: Final = 1_000
EPILOG: Final = """\b
examples:
  broker-streams query orders counts ann                  the row of a key
  broker-streams query orders counts --limit 20           the first rows
  broker-streams query orders counts --from a --to m      rows of these keys
  broker-streams query orders per-minute ann --from 2026-11-30T12:00:00Z
  broker-streams query orders counts --at 127.0.0.1:8090  without asking the brokers
"""


@click.command("query", epilog=EPILOG)
@click.argument("application", metavar="APP")
@click.argument("store", metavar="STORE")
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--from", "begin", metavar="KEY|TIME", help="First key; of windows and versions, the first time.")
@click.option("--to", "end", metavar="KEY|TIME", help="Last key, or last time.")
@click.option("--as-of", "as_of", metavar="TIME", help="The value of a versioned store at this time.")
@click.option("--prefix", metavar="TEXT", help="Keys that begin with this text.")
@click.option("--reverse", is_flag=True, help="Backwards.")
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, metavar="ROWS", help="Show at most so many rows."
)
@click.option(
    "--isolation",
    type=click.Choice(["committed", "uncommitted"]),
    help="[default: committed with exactly_once_v2, else uncommitted]",
)
@click.option("--stale", is_flag=True, help="Also ask standbys, and stores that are being restored.")
@click.option("--at", "at", metavar="HOST:PORT", help="Ask this instance.  [default: one that the group names]")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token of the instances (brokercy.streams.token.file).",
)
@options.click_options()
@json_option
@click.pass_context
def query_command(
    context: click.Context,
    /,
    application: str,
    store: str,
    key: str | None,
    begin: str | None,
    end: str | None,
    as_of: str | None,
    prefix: str | None,
    reverse: bool,
    limit: int,
    isolation: str | None,
    stale: bool,
    at: str | None,
    token_file: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Show rows of STORE of the application APP.

    Any instance with application.server answers, and asks the others for their parts. Keys are texts, numbers or JSON,
    as the store has them; times are ms since 1970, or such as 2026-11-30T12:00:00Z.
    """
    asked = {
        "key": key,
        "from": begin,
        "to": end,
        "as_of": as_of,
        "prefix": prefix,
        "reverse": "true" if reverse else None,
        "isolation": isolation,
        "stale": "true" if stale else None,
    }
    with errors(context, as_json=as_json):
        token = None if token_file is None else _token(token_file)
        wanted = {name: text for name, text in asked.items() if text is not None}
        rows = asyncio.run(_rows(given, at, application, store, wanted, limit, token))
        if as_json:
            print(json.dumps(rows, ensure_ascii=False))
        else:
            for row in rows:
                print(_line(row))


def _token(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise ClientError(Failure.INVALID, f"{path} cannot be read: {error}", what="--token-file") from None


async def _rows(
    given: Mapping[str, Any],
    at: str | None,
    application: str,
    store: str,
    wanted: dict[str, str],
    limit: int,
    token: str | None,
) -> list[dict[str, Any]]:
    place = await _place(given, at, application)
    headers = [] if token is None else [("Authorization", f"Bearer {token}")]
    rows: list[dict[str, Any]] = []
    while True:
        page = wanted | {"limit": str(min(PAGE_ROWS, limit - len(rows)))}
        target = f"/stores/{quote(store, safe='')}?{urlencode(page)}"
        found, following = await ask_rows(place, target, ANSWER_S, headers=headers)
        rows += found
        if following is None or len(rows) >= limit:
            return rows
        wanted = wanted | {"next": following}


async def _place(given: Mapping[str, Any], at: str | None, application: str) -> Address:
    """The instance to ask. Raises ClientError: the application has none that answers."""
    if at is not None:
        try:
            return parse_address(at, needs_port=True)
        except ValueError as error:
            raise ClientError(Failure.INVALID, str(error), what="--at") from None
    async with client_for(None, given, PROGRAM) as client:
        found = await read_application(client, application)
    for row in found.instances:
        if row.endpoint is not None and row.member in found.states:
            return parse_address(row.endpoint, needs_port=True)
    reasons = "; ".join(f"{endpoint}: {reason}" for endpoint, reason in found.failed.items())
    reason = reasons or "start its instances with application.server=HOST:PORT"
    raise ClientError(Failure.INVALID, f"no instance of the application answers: {reason}", what=application)


def _line(row: dict[str, Any]) -> str:
    """A row as text: the key or window, and the value as JSON."""
    value = json.dumps(row["value"], ensure_ascii=False)
    parts = [] if "key" not in row else [row["key"] if isinstance(row["key"], str) else json.dumps(row["key"])]
    if "start_ms" in row:
        parts.append(f"{row['start_ms']}-{row['end_ms']}")
    if "valid_to" in row:
        until = "" if row["valid_to"] is None else str(row["valid_to"])
        parts.append(f"{row['timestamp']}-{until}")
    elif row.get("timestamp") is not None:
        value += f"  @{row['timestamp']}"
    return clean(f"{'  '.join(parts)}  {value}".strip())
