"""The part of the application that screens and bars use, so that they need not import it: it imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admin_tui.settings import Settings
    from broker_cy.console.acts.plan import Command
    from broker_cy.console.alerts.watch import Alerting
    from broker_cy.console.session import Session
    from broker_registry.console.session import SchemaSession


class ConsoleApp(Protocol):
    """`admin_tui.app.Console`; each is described there."""

    session: Session
    settings: Settings
    alerts: Alerting
    typed: list[str]

    @property
    def is_readonly(self) -> bool: ...
    @property
    def schemas(self) -> SchemaSession | None: ...
    @property
    def command(self) -> Command: ...
    @property
    def open_alerts(self) -> int: ...
    @property
    def link_state(self) -> str: ...
    @property
    def command_names(self) -> list[str]: ...
    @property
    def command_help(self) -> list[tuple[str, str]]: ...
    def show_view(self, name: str, *arguments: str, keep: bool = True) -> None: ...
    def run_command(self, text: str) -> None: ...
    def save_picture(self) -> None: ...
    def complete(self, value: str, names: Iterable[str]) -> list[str]: ...
