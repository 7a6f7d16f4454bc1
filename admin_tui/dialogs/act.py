"""The preview of an act: each change, how much is affected, and the equivalent command line."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.pace import LongAct, progress_text
from broker_cy.console.acts.plan import CHANGES_MAX, Failed, Plan, Report, Revealed, execute
from broker_cy.reporting.foreign_text import clean, clean_lines

# Failures that are shown individually; the first line gives their number.
FAILURES_SHOWN = 5


class ActDialog(ModalScreen[str | None]):
    """Dismissed with the report of the act, or None if it was cancelled. The button Cancel has the focus, or the field
    for the name.

    A failure is shown here, and the dialog stays open; so is a secret that the act revealed, until the user closes it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="act.cancel"),
        Binding("left", "app.focus_previous", "Previous", show=False, id="act.before"),
        Binding("right", "app.focus_next", "Next", show=False, id="act.next"),
    ]
    DEFAULT_CSS = """
    ActDialog { align: center middle; }
    ActDialog > Vertical {
        width: 90%; max-width: 110; height: auto; max-height: 95%; border: round $primary; background: $surface;
        padding: 0 1;
    }
    ActDialog.-destructive > Vertical { border: round $error; }
    ActDialog VerticalScroll { height: auto; max-height: 10; background: $background; }
    ActDialog Static { height: auto; }
    ActDialog #command { color: $text-muted; }
    ActDialog #problem { color: ansi_red; text-style: bold; }
    ActDialog #revealed { margin: 1 0; }
    ActDialog Horizontal { height: auto; align-horizontal: right; }
    ActDialog Button { margin-left: 2; }
    ActDialog Button:focus { text-style: bold reverse; }
    """

    def __init__(self, plan: Plan, client: AdminClient) -> None:
        super().__init__(classes="-destructive" if plan.is_destructive else "")
        self.plan = plan
        self._client = client
        self._is_running = False
        # For an act that has revealed a secret.
        self._done: Report | None = None

    def compose(self) -> ComposeResult:
        plan = self.plan
        with Vertical() as box:
            box.border_title = Text(clean(plan.title))
            yield Static(Text(clean(plan.affected), "bold"), id="affected")
            if plan.changes:
                with VerticalScroll(can_focus=len(plan.changes) > 10):
                    shown = [clean(str(change)) for change in plan.changes[:CHANGES_MAX]]
                    if len(plan.changes) > CHANGES_MAX:
                        shown.append(f"... and {len(plan.changes) - CHANGES_MAX:,} more")
                    yield Static(Text("\n".join(shown), no_wrap=True, overflow="ellipsis"), id="lines")
            if plan.command:
                yield Static(Text(f"$ {clean(plan.command)}"), id="command")
            if plan.typed is not None and not plan.problem:
                yield Static(Text(f"Type {clean(plan.typed)} to confirm:"), id="ask")
                yield Input(compact=True, id="typed")
            yield Static(Text(clean(plan.problem)), id="problem")
            with Horizontal():
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(
                    plan.verb,
                    id="do",
                    variant="error" if plan.is_destructive else "primary",
                    compact=True,
                    disabled=bool(plan.typed is not None or plan.problem),
                )

    def on_mount(self) -> None:
        typed = self.query("#typed")
        (typed.first() if typed else self.query_one("#cancel")).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#do", Button).disabled = event.value != self.plan.typed

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value == self.plan.typed:
            self._start()
        else:
            self._say(f"{event.value!r} is not {self.plan.typed!r}: nothing was changed")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "cancel":
            self.action_cancel()
        elif self._done is not None and self._done.revealed is not None:
            self.app.copy_to_clipboard(self._done.revealed.value)
            event.button.label = "Copied"
        else:
            self._start()

    def action_cancel(self) -> None:
        # Requests that were sent cannot be recalled: the dialog waits to show their results. Moves can be cancelled.
        if self._done is not None:
            self.dismiss(self._done.said)
        elif self._is_running and isinstance(self.plan.act, LongAct):
            self._say("cancelling what is under way ...")
            self.workers.cancel_node(self)
        elif self._is_running:
            self._say("the requests were sent; waiting for the responses")
        else:
            self.dismiss(None)

    def _say(self, text: str) -> None:
        self.query_one("#problem", Static).update(Text(clean_lines(text)))

    def _start(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        self.query_one("#do", Button).disabled = True
        self._say("running ...")
        self.run_worker(self._run(), exclusive=True)

    async def _run(self) -> None:
        typed, act = self.query("#typed"), self.plan.act
        try:
            if isinstance(act, LongAct) and not self.plan.problem:
                report = await act.follow(self._client, lambda now: self._say(progress_text(now)))
            else:
                report = await execute(self._client, self.plan, typed.first(Input).value if typed else None)
        except asyncio.CancelledError:
            # Only now is everything put back that was under way.
            self.app.call_later(self.dismiss, f"cancelled: {self.plan.title}")
            raise
        except ClientError as error:
            report = Report("", failed=(Failed(self.plan.title, error),))
        if not report.failed and report.revealed is not None:
            self._reveal(report, report.revealed)
            return
        if not report.failed:
            self.dismiss(report.said)
            return
        self._is_running = False
        # A plan that was partly executed is made again, because some of its resources no longer exist.
        self.query_one("#do", Button).disabled = bool(report.done)
        said = f"{report.said}, then: {report.problem}" if report.done else report.problem
        failures = [f"{each.what}: {each.error.reason}" for each in report.failed[1:FAILURES_SHOWN]]
        self._say("\n".join([said, *failures]))
        self.query_one("#cancel").focus()

    def _reveal(self, report: Report, revealed: Revealed) -> None:
        """Show a secret until the dialog is closed. It is shown whole, over as many lines as it takes."""
        self._done = report
        self.query_one("#affected", Static).update(Text(clean(report.said), "bold"))
        self.query("#command, VerticalScroll").remove()
        self._say("It is not shown again.")
        secret = Static(Text.assemble(f"{clean(revealed.what)}:\n", (clean(revealed.value), "bold")), id="revealed")
        self.query_one(Vertical).mount(secret, before="#problem")
        copy, close = self.query_one("#do", Button), self.query_one("#cancel", Button)
        copy.label, copy.disabled, close.label = "Copy", False, "Close"
        # A second press of enter must not close it.
        copy.focus()
