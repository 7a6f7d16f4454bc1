"""Base of every screen: title and key bar, panels that are linked to sources, commands, a filter and acts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from admin_tui.dialogs.act import ActDialog
from admin_tui.dialogs.form import FormDialog
from admin_tui.widgets.bars import CommandBar, KeyBar, TitleBar
from admin_tui.widgets.edges import set_edge
from admin_tui.widgets.grid import Grid
from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.plan import Command, Plan
from broker_cy.console.fields import Form
from broker_cy.console.listeners import Source, call
from broker_cy.console.session import Session
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import age

if TYPE_CHECKING:
    from admin_tui.console_app import ConsoleApp

V = TypeVar("V")
# If making the plan of an act takes longer, the screen says that it waits for the broker.
WAIT_SHOWN_S = 1.0
Planner = Callable[[Mapping[str, Any]], Awaitable[Plan]]


class Panel(Protocol):
    """A widget with a border that shows its age."""

    def set_notice(self, text: str) -> None: ...


@dataclass(eq=False)
class Link:
    """One panel and the source of its data."""

    source: Source
    panel: Widget | None
    update: Callable[[], None]
    is_shown: bool = False


class View(Screen[None]):
    """A screen of the console. A subclass yields its panels in `body`, and links them to sources in `connect`."""

    # Its panels fill the screen: Textual need not draw 50 lines of background below them.
    BLANK: ClassVar[bool] = True
    NAME: ClassVar[str] = ""
    ABOUT: ClassVar[str] = ""
    # Actions that change something: in read-only mode they are refused and shown in grey.
    CHANGES: ClassVar[frozenset[str]] = frozenset()
    # Actions on the selected row of `grid`: they are hidden while no row is selected.
    NEEDS_ROW: ClassVar[frozenset[str]] = frozenset()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="view.back"),
        Binding("slash", "filter", "Filter", key_display="/", id="view.filter"),
        Binding("colon", "command", "Go to", key_display=":", id="view.command"),
        Binding("question_mark", "help", "Help", key_display="?", id="view.help"),
        Binding("f1", "help_widget", "Help for the focused part", show=False, id="view.help_widget"),
        Binding("ctrl+r", "refresh", "Refresh", show=False, id="view.refresh"),
        Binding("ctrl+s", "screenshot", "Save a picture", show=False, id="view.picture"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._links: list[Link] = []
        # While the screen subscribes: the links whose source already had data.
        self._caught_up: list[Link] | None = None

    # Defined by subclasses.

    @property
    def path(self) -> str:
        """The path of the screen, for the title bar."""
        return self.NAME

    def body(self) -> ComposeResult:
        """The panels."""
        raise NotImplementedError

    def connect(self) -> None:
        """Link panels to sources; called once the panels are mounted."""

    # Used by subclasses.

    @property
    def console_app(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    @property
    def session(self) -> Session:
        return self.console_app.session

    @property
    def client(self) -> AdminClient:
        return self.session.client

    @property
    def command(self) -> Command:
        """Builds equivalent command lines."""
        return self.console_app.command

    @property
    def grid(self) -> Grid[Any]:
        """Return the table to which the filter and acts apply: the focused one, or the first."""
        focused = self.focused
        return focused if isinstance(focused, Grid) else self.query(Grid).first()

    def link(self, source: Source, panel: Widget, update: Callable[[], None]) -> None:
        """Call `update` when `source` has new data, and show its age and error at the border of `panel`."""
        link = Link(source, panel, update)
        self._links.append(link)
        cast("Panel", panel).set_notice("waiting for the broker ...")

    def also(self, source: Source, update: Callable[[], None]) -> None:
        """Call `update` for a source that is optional for a panel."""
        self._links.append(Link(source, None, update))

    def compose(self) -> ComposeResult:
        yield TitleBar(clean(self.path))
        yield from self.body()
        yield CommandBar(self.console_app.command_names)
        yield KeyBar()

    def on_mount(self) -> None:
        self.connect()
        self.set_interval(1.0, self._show_ages)
        self._subscribe()

    # A screen that is covered has no listeners, so that its feeds pause unless another screen uses them.

    def on_screen_resume(self) -> None:
        self._subscribe()

    def on_screen_suspend(self) -> None:
        for link in self._links:
            if link.is_shown:
                link.is_shown = False
                link.source.unsubscribe(self._listener(link))

    def on_unmount(self) -> None:
        self.on_screen_suspend()

    def _subscribe(self) -> None:
        """Subscribe to every source, and then update each panel once, even if several sources update it."""
        self._caught_up = []
        try:
            for link in self._links:
                if not link.is_shown:
                    link.is_shown = True
                    link.source.subscribe(self._listener(link))
        finally:
            links, self._caught_up = self._caught_up, None
        for update in dict.fromkeys(link.update for link in links):
            call(update)
        for link in links:
            self._show_age(link)
        if links:
            self.refresh_bindings()

    def _listener(self, link: Link) -> Callable[[], None]:
        """Return the listener of a link, always the same object, so that it can be unsubscribed."""
        listeners = self.__dict__.setdefault("_listeners", {})
        if link not in listeners:

            def listen() -> None:
                if not self.is_attached:
                    return
                if self._caught_up is not None:
                    self._caught_up.append(link)
                    return
                link.update()
                self._show_age(link)
                self.refresh_bindings()

            listeners[link] = listen
        return cast("Callable[[], None]", listeners[link])

    def _show_ages(self) -> None:
        if self.is_active:
            for link in self._links:
                self._show_age(link)
            self.query_one(TitleBar).refresh()

    @staticmethod
    def _show_age(link: Link) -> None:
        if link.panel is None:
            return
        age_s, error = link.source.age_s, link.source.error
        panel = cast("Panel", link.panel)
        if error is None:
            text = Text("" if age_s is None else f"{age(age_s)} ago" if age_s >= 1 else "now")
            if age_s is not None:
                panel.set_notice("nothing to show")
        elif age_s is None:
            text = Text("no answer", "bold red")
            panel.set_notice(clean(error))
        else:
            text = Text(f"{age(age_s)} old: {clean(error)}"[:100], "bold red")
        set_edge(link.panel, "subtitle", text)

    # Keys that every screen has.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            # On the first screen, esc only removes a filter.
            return len(self.app.screen_stack) > 2 or bool(self.query(Grid) and self.grid.pattern)
        if action == "filter":
            return bool(self.query(Grid))
        if action in self.NEEDS_ROW and (not self.query(Grid) or self.grid.selected is None):
            return False
        if action in self.CHANGES and self.console_app.is_readonly:
            return None
        return True

    def action_back(self) -> None:
        grid = self.grid if self.query(Grid) else None
        if grid is not None and grid.pattern:
            grid.filter("")
        else:
            self.app.pop_screen()

    async def action_filter(self) -> None:
        self._filtered = self.grid
        await self.query_one(CommandBar).open("/", self._filtered.pattern)

    async def action_command(self) -> None:
        await self.query_one(CommandBar).open(":")

    def action_refresh(self) -> None:
        self.session.refresh()

    def action_help(self) -> None:
        from admin_tui.dialogs.help import HelpDialog

        self.app.push_screen(HelpDialog(f"Help: {self.NAME}", self.ABOUT, self, self.console_app.command_help))

    def action_help_widget(self) -> None:
        from admin_tui.dialogs.help import HelpDialog

        focused = self.focused
        about = getattr(focused, "HELP", None) or "No help for the focused part. `?` shows help on this screen."
        self.app.push_screen(HelpDialog("Help", str(about), None, []))

    def action_screenshot(self) -> None:
        self.console_app.save_picture()

    def on_command_bar_entered(self, event: CommandBar.Entered) -> None:
        event.stop()
        if event.mode == "/":
            self.filter(event.text)
        elif event.mode == ":":
            self.console_app.run_command(event.text)

    def on_command_bar_left(self, event: CommandBar.Left) -> None:
        event.stop()
        if event.mode == "/":
            self.filter("")

    def filter(self, pattern: str) -> None:
        """Filter the table that had the focus when the filter was opened."""
        grid = getattr(self, "_filtered", None) or self.grid
        grid.filter(pattern)

    # Acts.

    def tell(self, text: str, *, is_error: bool = False) -> None:
        """Show a notification."""
        self.notify(clean(text), severity="error" if is_error else "information", markup=False)

    def act(
        self,
        plan: Planner,
        *,
        form: Form | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Show `form`, plan the act, show the plan, and execute it once it is confirmed."""
        if self.console_app.is_readonly:
            self.tell("read-only mode: changes are refused", is_error=True)
            return
        self.run_worker(self._act(plan, None if form is None else FormDialog(form), then), group="act")

    async def _act(self, plan: Planner, form: FormDialog | None, then: Callable[[], None] | None) -> None:
        planned = await self._planned(plan, form)
        if planned is None:
            return
        said = await self.app.push_screen_wait(ActDialog(planned, self.client))
        if said is not None:
            self.tell(said)
            self.session.refresh()
            if then is not None:
                then()

    async def _planned(self, plan: Planner, form: FormDialog | None) -> Plan | None:
        """Return the plan; None if the form was cancelled, or planning failed, which is reported."""
        while True:
            values = {} if form is None else await self.app.push_screen_wait(form)
            if values is None:
                return None
            # The form is closed, and a broker that is slow or away may take a long time to answer.
            waiting = self.set_timer(WAIT_SHOWN_S, lambda: self.tell("still waiting for the broker ..."))
            try:
                return await plan(values)
            except ClientError as error:
                if form is None:
                    self.tell(str(error), is_error=True)
                    return None
                # The texts are kept: a value that the broker refused can be corrected in the form.
                form = form.again(str(error))
            finally:
                waiting.stop()


class ListView(View):
    """A screen with one table."""

    def body(self) -> ComposeResult:
        yield self.make_grid()

    def make_grid(self) -> Grid[Any]:
        raise NotImplementedError

    def on_mount(self) -> None:
        super().on_mount()
        self.grid.focus()
