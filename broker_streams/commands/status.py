"""`broker-streams status`: applications as the cluster and their instances report them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import click

from broker_cy.admin.streams_applications import (
    StreamsApplication,
    list_applications,
    read_application,
    to_json,
)
from broker_cy.client import options
from broker_streams.commands.context import PROGRAM, client_for, errors, json_option
from broker_streams.commands.shown import print_application, print_applications


@click.command("status")
@click.argument("application", metavar="[APP]", required=False)
@options.click_options()
@json_option
@click.pass_context
def status_command(context: click.Context, /, application: str | None, as_json: bool, **given: Any) -> None:
    """Show the applications of a cluster, or the instances, tasks, inputs and stores of APP.

    Members, tasks and lag are those that the brokers report. Rates, restoring and sizes of stores come from the
    instances that have application.server and answer.
    """
    with errors(context, as_json=as_json):
        found = asyncio.run(_read(given, application))
        if as_json:
            print(json.dumps([to_json(each) for each in found] if application is None else to_json(found[0])))
        elif application is None:
            print_applications(found)
        else:
            print_application(found[0])


async def _read(given: Mapping[str, Any], application: str | None) -> list[StreamsApplication]:
    async with client_for(None, given, PROGRAM) as client:
        if application is not None:
            return [await read_application(client, application)]
        return await list_applications(client)
