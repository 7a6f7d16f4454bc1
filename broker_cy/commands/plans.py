"""Carries out plans of the console core: preview, confirmation, execution and report, the same for every command."""

from __future__ import annotations

import asyncio
import sys
import time
from types import TracebackType
from typing import Final

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.client.program import EXIT_FAILED, EXIT_UNREACHED, exit_code_of
from broker_cy.commands.context import Target, ended_by_signals
from broker_cy.commands.output import confirm, confirm_typed, print_error, print_json
from broker_cy.console.acts.pace import LongAct, progress_text
from broker_cy.console.acts.plan import CHANGES_MAX, Change, Command, Plan, Report, execute
from broker_cy.reporting.column import Column
from broker_cy.reporting.terminal import print_rows

WHAT: Final = Column[Change]("what", "Change", lambda row: row.what)
BEFORE: Final = Column[Change]("before", "Before", lambda row: row.before)
AFTER: Final = Column[Change]("after", "After", lambda row: row.after)
_CHANGES: Final = (WHAT, BEFORE, AFTER, Column[Change]("note", "", lambda row: row.note))
# Without a terminal, a line of progress at least this far apart.
_LINE_EVERY_S: Final = 10.0


def command_of(target: Target) -> Command:
    """Builds the equivalent command line of a plan."""
    return Command(target.cluster, False)


async def run_plan(target: Target, client: AdminClient, plan: Plan, *, dry_run: bool, yes: bool) -> int:
    """Show the plan, ask, execute it, and report; returns the exit code. Raises ClientError if it has a problem."""
    if plan.is_done:
        _report(target, plan, Report(plan.problem))
        return 0
    if plan.problem:
        raise ClientError(Failure.INVALID, plan.problem)
    show(plan, as_json=target.as_json)
    if dry_run:
        _report(target, plan, None)
        return 0
    target.require_writable()
    question = f"{plan.title}: {plan.affected}." if plan.typed else f"{plan.title}: {plan.affected}?"
    if plan.typed is None:
        confirm(question, yes=yes)
    else:
        confirm_typed(plan.typed, question, yes=yes)
    if isinstance(plan.act, LongAct):
        report = await _follow(target, client, plan.act)
    else:
        report = await execute(client, plan, plan.typed)
    return _report(target, plan, report)


def show(plan: Plan, *, as_json: bool) -> None:
    """Print the changes of a plan on the standard error."""
    if as_json:
        return
    click.echo(f"{plan.title}: {plan.affected}", err=True)
    if plan.changes:
        print_rows(_CHANGES, plan.changes[:CHANGES_MAX], err=True)
    if len(plan.changes) > CHANGES_MAX:
        click.echo(f"... and {len(plan.changes) - CHANGES_MAX:,} more", err=True)


def _report(target: Target, plan: Plan, report: Report | None) -> int:
    """Print the result (None: only planned), and return the exit code."""
    failed = () if report is None else report.failed
    if target.as_json:
        print_json(
            {
                "title": plan.title,
                "affected": plan.affected,
                "changes": plan.changes,
                "dry_run": report is None,
                "done": () if report is None else report.done,
                "failed": [each.what for each in failed],
            }
        )
    elif report is not None and report.said:
        click.echo(report.said)
    code = 0
    for each in failed:
        print_error(each.error.about(each.error.what or each.what), as_json=target.as_json)
        code = max(code, EXIT_UNREACHED if exit_code_of(each.error) == EXIT_UNREACHED else EXIT_FAILED)
    return code


async def _follow(target: Target, client: AdminClient, act: LongAct) -> Report:
    """Execute moves with progress. Ctrl-C, SIGTERM and SIGHUP cancel the moves under way and remove the throttle."""
    with ProgressLine(quiet=target.as_json) as line, ended_by_signals():
        try:
            return await act.follow(client, line.show)
        except asyncio.CancelledError:
            line.end()
            click.echo(
                f"broker-cy: stopped after {line.done} of {act.steps} moves. Those under way were "
                "cancelled, and the throttle was removed. The same command continues.",
                err=True,
            )
            raise


class ProgressLine:
    """Progress on the standard error: one line that changes on a terminal, lines now and then elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._is_terminal = sys.stderr.isatty()
        self._is_open = False
        self._next_s = 0.0
        self.done = 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def show(self, progress: MoveProgress) -> None:
        advanced = progress.done > self.done
        self.done = progress.done
        if self._quiet:
            return
        if self._is_terminal:
            self._is_open = True
            click.echo(f"\r\x1b[K{progress_text(progress)}", err=True, nl=False)
        elif advanced or time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _LINE_EVERY_S
            click.echo(progress_text(progress), err=True)

    def end(self) -> None:
        if self._is_open:
            click.echo(err=True)
            self._is_open = False
