"""`broker-cy alerts`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.client import options
from broker_cy.client.program import EXIT_FAILED
from broker_cy.client.quantities import DURATION_HELP
from broker_cy.commands.context import Target, cluster_command
from broker_cy.commands.output import plain, print_json
from broker_cy.commands.values import DURATION
from broker_cy.console.alerts.rules import (
    AlertSettings,
    WebhookSettings,
    check_url,
    default_rules_path,
    load_settings,
)
from broker_cy.console.alerts.watch import FIRING, Alerting, Notice
from broker_cy.console.columns import alerts as columns
from broker_cy.console.session import Session
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import duration, when
from broker_cy.reporting.terminal import print_rows

# How long the command waits at its end for the delivery of queued webhook requests.
FLUSH_S = 2.0
EPILOG = """\b
examples:
  broker-cy alerts                                 evaluate the rules once; exit code 1 if an alert fires
  broker-cy alerts --follow                        print each alert that fires or is resolved
  broker-cy alerts --follow --notify               and POST it to the [webhook] of alerts.toml
  broker-cy alerts --follow --webhook http://127.0.0.1:8000/alerts
  broker-cy alerts --rules alerts.toml --json
"""


@click.command("alerts", epilog=EPILOG)
@cluster_command
@options.click_options(options.OF_MIRRORS)
@click.option(
    "--rules",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File that adds, changes and silences rules.  [default: alerts.toml in the directory of the cluster file]",
)
@click.option("--follow", "-f", is_flag=True, help="Evaluate the rules repeatedly, until interrupted.")
@click.option("--every", type=DURATION, default="5s", show_default=True, help=f"With --follow: {DURATION_HELP}.")
@click.option("--notify", is_flag=True, help="POST each alert that fires or is resolved to the [webhook] of the rules.")
@click.option("--webhook", metavar="URL", help="POST them to this URL instead, as JSON.")
async def command(
    target: Target,
    client: AdminClient,
    rules: Path | None,
    follow: bool,
    every: int,
    notify: bool,
    webhook: str | None,
) -> int:
    """Evaluate alert rules without a console: the built-in rules, and those of a file.

    Without --follow an alert fires immediately, even if its rule has `for_s`, and stalled and stopped groups are not
    detected, because that takes several samples.
    """
    # With --clusters-file, the rules are those of its directory.
    path = rules or default_rules_path(target.clusters_file)
    # A file that was not named need not exist.
    settings = load_settings(path) if rules is not None or path.exists() else AlertSettings()
    alerting = Alerting(_changed(settings, webhook, is_once=not follow), notifies=notify or webhook is not None)
    if settings.webhook is not None and alerting.webhook is None:
        click.echo(
            clean(f"broker-cy: notifications are off; --notify posts alerts to the [webhook] of {path}"), err=True
        )
    session = Session(target.cluster, client_id="broker-cy-cli")
    try:
        if follow:
            session.events.start()
            while True:
                for notice in await alerting.look(session):
                    _print(notice, as_json=target.as_json)
                await asyncio.sleep(every / 1000)
        await alerting.look(session)
        findings = alerting.watch(target.cluster.name).findings
        if target.as_json:
            print_json(
                [
                    {"rule": each.rule.name, "kind": each.rule.kind, "state": each.state, "subject": each.subject,
                     "text": each.text}
                    for each in findings
                ]
            )  # fmt: skip
        else:
            print_rows((columns.STATE, columns.RULE, columns.WHAT), findings)
        return EXIT_FAILED if any(each.state == FIRING for each in findings) else 0
    finally:
        await session.close()
        await alerting.close(FLUSH_S)


def _changed(settings: AlertSettings, webhook: str | None, *, is_once: bool) -> AlertSettings:
    """Return the settings as the options change them. Raises ClientError."""
    if is_once:
        # The command does not wait for `for_s`.
        settings = replace(settings, rules=tuple(replace(rule, for_s=0.0) for rule in settings.rules))
    if webhook is None:
        return settings
    try:
        return replace(settings, webhook=WebhookSettings(check_url(webhook)))
    except ValueError as error:
        raise ClientError(Failure.INVALID, f"--webhook {error}") from None


def _print(notice: Notice, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(plain(dict(notice.payload())), ensure_ascii=False))
        return
    state = "firing" if notice.is_firing else f"resolved after {duration(notice.at_ms - notice.since_ms)}"
    click.echo(clean(f"{when(notice.at_ms)} {state}: {notice.rule.name}: {notice.text}"))
