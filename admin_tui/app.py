"""The application: one session, a stack of screens, commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen

from admin_tui.key_order import KeyOrder
from admin_tui.picture import pictures_directory, save, svg_of
from admin_tui.registry import BY_NAME, SPECS
from admin_tui.screens.overview import OverviewView
from admin_tui.settings import Settings
from admin_tui.tones import DARK
from broker_cy.admin.cluster import ClusterDescription
from broker_cy.admin.collector import IdleCollector
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Command
from broker_cy.console.alerts.rules import AlertSettings
from broker_cy.console.alerts.watch import Alerting
from broker_cy.console.session import Session
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import age, plural
from broker_registry.console.tools import schemas_of

if TYPE_CHECKING:
    from broker_cy.console.feeds import Feed
    from broker_registry.console.session import SchemaSession

CLIENT_ID = "broker-tui"
# Commands that the up arrow recalls.
TYPED_MAX = 100
# New alerts of one evaluation that are shown individually.
NOTICES_SHOWN = 3
_OTHER_COMMANDS = (
    ("cluster NAME", "switch to another cluster of the cluster file"),
    ("theme NAME", "change the colours"),
    ("refresh", "refresh the screen"),
    ("help", "show keys and commands"),
    ("quit", "quit the console"),
)


class Console(App[int]):
    """broker-tui."""

    TITLE = "broker-tui"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True, id="app.quit"),
        Binding("q", "quit", "Quit", show=False, id="app.leave"),
    ]
    CSS = """
    Screen { layers: base; }
    Toast { width: auto; max-width: 90%; }
    """

    def __init__(
        self,
        entry: ClusterEntry,
        settings: Settings | None = None,
        *,
        clusters: dict[str, ClusterEntry] | None = None,
        clusters_problem: str = "",
        is_readonly: bool = False,
        timeout_s: float | None = None,
        alerts: Alerting | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings or Settings()
        self.clusters = dict(clusters or {})
        self._clusters_problem = clusters_problem
        self._asked_readonly = is_readonly
        self._timeout_s = timeout_s
        self.session = Session(entry, client_id=CLIENT_ID, timeout_s=timeout_s)
        self.alerts = alerts or Alerting(AlertSettings())
        self._schemas: tuple[ClusterEntry, SchemaSession | None] | None = None
        self.typed: list[str] = []
        self.keys = KeyOrder(self, super().on_event)
        self.collector = IdleCollector()
        self.ansi_theme_dark = DARK
        self.theme = self.settings.theme
        self.set_keymap(self.settings.keys)

    # For screens.

    @property
    def is_readonly(self) -> bool:
        return self._asked_readonly or self.settings.readonly or self.session.entry.is_readonly

    @property
    def schemas(self) -> SchemaSession | None:
        """The cluster's schema registry; None if it has none. Raises ClientError."""
        entry = self.session.entry
        if self._schemas is None or self._schemas[0] is not entry:
            self._schemas = entry, schemas_of(entry)
        return self._schemas[1]

    @property
    def command(self) -> Command:
        return Command(self.session.entry, self.session.entry.name in self.clusters)

    @property
    def open_alerts(self) -> int:
        return len(self.alerts.watch(self.session.entry.name).firing)

    @property
    def link_state(self) -> str:
        feed = self.session.cluster()
        if feed.error is not None:
            return "unreachable" if feed.age_s is None else f"unreachable for {age(feed.age_s)}"
        return "connecting" if feed.value is None else "connected"

    @property
    def command_names(self) -> list[str]:
        return [*BY_NAME, *(name.split()[0] for name, _ in _OTHER_COMMANDS)]

    @property
    def command_help(self) -> list[tuple[str, str]]:
        return [(f"{spec.name} {spec.argument.upper()}".strip(), spec.what) for spec in SPECS] + list(_OTHER_COMMANDS)

    # Life.

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        if found is not LinuxDriver:
            return found
        from admin_tui.terminal import TerminalDriver

        return TerminalDriver

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not self.screen_stack:
            # The key was typed while the console was exiting.
            return
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.collector.used()
            self.keys.add(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        self.run_worker(self.keys.run(), group="keys")
        self._start_session()
        self.push_screen(OverviewView())
        self.run_worker(self.collector.run(), group="collector")
        self.set_interval(self.alerts.interval_s, self._look)

    def _start_session(self) -> None:
        self._cluster_feed: Feed[ClusterDescription] = self.session.cluster()
        self._cluster_feed.subscribe(self._cluster_changed)
        self.session.start()

    def _cluster_changed(self) -> None:
        for screen in self.screen_stack[1:]:
            screen.refresh_bindings()

    def _look(self) -> None:
        # In a worker, because keys would wait for anything that a timer awaits.
        self.run_worker(self._look_at(self.session), group="alerts", exclusive=False)

    async def _look_at(self, session: Session) -> None:
        notices = await self.alerts.look(session)
        for notice in notices[:NOTICES_SHOWN]:
            severity: Literal["error", "information"] = "error" if notice.is_firing else "information"
            title = "Alert" if notice.is_firing else "Resolved"
            self.notify(clean(f"{notice.rule.name}: {notice.text}"), title=title, severity=severity, markup=False)
        if len(notices) > NOTICES_SHOWN:
            more = plural(len(notices) - NOTICES_SHOWN, "other alert")
            self.notify(f"{more}: see :alerts", title="Alerts", severity="error", markup=False)

    async def on_unmount(self) -> None:
        self._cluster_feed.unsubscribe(self._cluster_changed)
        await asyncio.gather(self.session.close(), self.alerts.close())

    # Navigation.

    def show_view(self, name: str, *arguments: str, keep: bool = True) -> None:
        """Open a screen. With `keep`, `esc` returns to the screen that is shown now; otherwise to the overview."""
        spec = BY_NAME[name]
        if not keep:
            while len(self.screen_stack) > 2:
                self.pop_screen()
            if spec.view == "OverviewView":
                return
        self.push_screen(spec.load()(*arguments))

    def run_command(self, text: str) -> None:
        """Run a command that was typed after the colon. Errors in it are shown."""
        words = text.split()
        if not words:
            return
        self.typed = [*[each for each in self.typed if each != text][-TYPED_MAX + 1 :], text]
        try:
            self._run(words[0], words[1:])
        except ClientError as error:
            self.notify(clean(error.reason), severity="error", markup=False)

    def _run(self, name: str, arguments: list[str]) -> None:
        if name in ("q", "quit"):
            self.exit(0)
        elif name == "refresh":
            self.session.refresh()
        elif name == "help":
            self.screen.run_worker(self.screen.run_action("help"))
        elif name == "theme":
            self._change_theme(arguments)
        elif name == "cluster":
            self._change_cluster(arguments)
        elif name in BY_NAME:
            self._check_arguments(name, arguments)
            self.show_view(name, *arguments, keep=bool(arguments))
        else:
            near = [each for each in self.command_names if each.startswith(name)]
            if len(near) == 1:
                self._run(near[0], arguments)
            else:
                known = ", ".join(near or sorted(self.command_names))
                raise ClientError(Failure.INVALID, f"unknown command {name}; the commands are: {known}")

    @staticmethod
    def _check_arguments(name: str, arguments: list[str]) -> None:
        spec = BY_NAME[name]
        needed = 1 if spec.argument and not spec.argument.endswith("?") else 0
        allowed = 2 if spec.name == "messages" else 1 if spec.argument else 0
        if not needed <= len(arguments) <= allowed:
            raise ClientError(Failure.INVALID, f"usage: :{spec.name} {spec.argument.upper()}".strip())

    def _change_theme(self, arguments: list[str]) -> None:
        if len(arguments) != 1 or arguments[0] not in self.available_themes:
            raise ClientError(Failure.INVALID, f"the themes are {', '.join(sorted(self.available_themes))}")
        self.theme = arguments[0]

    def _change_cluster(self, arguments: list[str]) -> None:
        if len(arguments) != 1 or arguments[0] not in self.clusters:
            known = ", ".join(sorted(self.clusters))
            none = self._clusters_problem or "the cluster file has no clusters"
            said = f"the clusters are {known}" if known else none
            raise ClientError(Failure.INVALID, said)
        self.run_worker(self._go_to_cluster(self.clusters[arguments[0]]), exclusive=True)

    async def _go_to_cluster(self, entry: ClusterEntry) -> None:
        while len(self.screen_stack) > 1:
            await self.pop_screen()
        self._cluster_feed.unsubscribe(self._cluster_changed)
        old, self.session = self.session, Session(entry, client_id=CLIENT_ID, timeout_s=self._timeout_s)
        await old.close()
        self._start_session()
        await self.push_screen(OverviewView())

    def complete(self, value: str, names: Iterable[str]) -> list[str]:
        """Completions of `value`: names of commands and of their arguments."""
        words = value.split(" ")
        if len(words) == 1:
            return sorted(name for name in names if name.startswith(value))
        if len(words) != 2:
            return []
        argument = "cluster" if words[0] == "cluster" else "theme" if words[0] == "theme" else ""
        if words[0] in BY_NAME:
            argument = BY_NAME[words[0]].argument.rstrip("?")
        known = self._known(argument)
        return [f"{words[0]} {name}" for name in known if name.startswith(words[1])]

    def _known(self, argument: str) -> list[str]:
        if argument == "topic":
            return [topic.name for topic in self.session.topics().value or ()]
        if argument == "group":
            return [group.group_id for group in self.session.groups().value or ()]
        if argument == "flow":
            mirrors = self.session.mirrors().value
            return [] if mirrors is None else [flow.name for flow in mirrors.flows]
        if argument == "broker":
            described = self.session.cluster().value
            return [] if described is None else [str(each.broker_id) for each in described.brokers]
        if argument == "cluster":
            return sorted(self.clusters)
        return sorted(self.available_themes) if argument == "theme" else []

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Yield the commands of the palette: every screen that needs no argument, and the actions of the current
        screen.
        """
        for spec in SPECS:
            if not spec.argument or spec.argument.endswith("?"):
                yield SystemCommand(
                    f"Go to {spec.name}", spec.what, lambda name=spec.name: self.show_view(name, keep=False)
                )
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and binding.id and not binding.system:
                yield SystemCommand(
                    binding.description,
                    f"on this screen: {self.get_key_display(binding)}",
                    lambda action=binding.action: screen.run_worker(screen.run_action(action)),
                )
        for name in sorted(self.clusters):
            yield SystemCommand(f"Cluster {name}", "switch to it", lambda name=name: self._change_cluster([name]))
        yield from super().get_system_commands(screen)

    def picture(self) -> str:
        """The screen as SVG."""
        return svg_of(self.screen._compositor.render_strips(), self.size.width)

    def save_picture(self) -> None:
        """Save the screen as an SVG file in the user's pictures directory."""
        directory = pictures_directory()
        try:
            path = save(self.picture(), directory, time.strftime("%Y%m%d-%H%M%S"))
        except OSError as error:
            self.notify(f"{directory}: {error.strerror}", severity="error", markup=False)
        else:
            self.notify(f"saved as {path}", markup=False)

    def title_text(self) -> Text:
        """The title of the terminal's window."""
        return Text(f"broker-tui {self.session.entry.name}")
