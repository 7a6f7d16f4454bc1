"""The console in a real terminal, for the whole life of a topic and a group."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import needs
from tests.support.broker import BrokerProcess
from tests.support.wait import until

ROOT = Path(__file__).resolve().parents[2]


class Tmux:
    """One window of tmux, with a separate server."""

    def __init__(self, directory: Path, *command: str, term: str = "screen-256color") -> None:
        self._socket = directory / "tmux"
        (directory / "tmux.conf").write_text(f'set -g default-terminal "{term}"\nset -sg escape-time 0\n')
        self._config = directory / "tmux.conf"
        environment = {**os.environ, "XDG_CONFIG_HOME": str(directory), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        environment.pop("BROKER_CY_CLUSTERS", None)
        size = ("-x", "80", "-y", "24")
        self._call("new-session", "-d", *size, "-c", str(ROOT), *command, environment=environment)

    def _call(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        argv = ["tmux", "-S", str(self._socket), "-f", str(self._config), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=environment, timeout=30).stdout

    def screen(self) -> str:
        return self._call("capture-pane", "-p")

    def keys(self, *names: str) -> None:
        """Send keys by tmux's names."""
        self._call("send-keys", *names)

    def type(self, text: str) -> None:
        self._call("send-keys", "-l", text)

    def shows(self, pattern: str) -> None:
        seen = ""

        def is_there() -> bool:
            nonlocal seen
            seen = self.screen()
            return re.search(pattern, seen) is not None

        try:
            until(is_there, f"{pattern!r} on the screen")
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{seen}") from None

    def hides(self, text: str) -> None:
        until(lambda: text not in self.screen(), f"no {text!r} on the screen")

    def confirms(self) -> None:
        """Go from Cancel to the button next to it, and wait until the dialog is closed."""
        self.keys("Tab", "Enter")
        self.hides("Cancel")

    def command(self, text: str) -> None:
        self.keys(":")
        self.shows(r"(?m)^:")
        self.type(text)
        self.keys("Enter")

    def is_alive(self) -> bool:
        argv = ["tmux", "-S", str(self._socket), "has-session"]
        return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, timeout=30)


@pytest.fixture
def terminal(broker_cy: BrokerProcess, tmp_path: Path) -> Iterator[Tmux]:
    tmux = Tmux(tmp_path, sys.executable, "-m", "admin_tui.cli", "--bootstrap", broker_cy.bootstrap)
    try:
        yield tmux
    finally:
        tmux.close()


@needs.tmux
@pytest.mark.full
def test_the_life_of_a_topic_and_a_group(terminal: Tmux) -> None:
    """If this fails, the console works on the tests' screen but not in a terminal."""
    name = "t" + uuid.uuid4().hex[:6]
    terminal.shows("Health")
    terminal.shows("connected")
    # Create a topic.
    terminal.command("topics")
    terminal.shows("Create")
    terminal.keys("c")
    terminal.shows("Create a topic")
    terminal.type(name)
    terminal.keys("Tab")
    terminal.type("1")
    terminal.keys("Enter")
    terminal.shows("1 partition, replication factor 1")
    terminal.confirms()
    terminal.shows(f"created topic {name}")
    # Produce, and browse.
    terminal.command(f"messages {name}")
    terminal.shows("nothing found")
    for value in ("first", "second"):
        terminal.keys("p")
        terminal.shows(f"Produce to {name}")
        # From the partition past the key and its type to the value.
        terminal.keys("Tab", "Tab", "Tab")
        terminal.type(value)
        terminal.keys("Enter")
        terminal.shows("1 record, ")
        terminal.confirms()
        terminal.shows(value)
    terminal.shows("2 found")
    terminal.keys("Enter")
    terminal.shows("value 6 B")
    terminal.keys("Escape")
    # The terminal reads Escape and an immediate second key as Alt with that key.
    terminal.hides("value 6 B")
    # A group that has read everything; then its lag grows.
    terminal.command(f"group {name}-g")
    terminal.shows(f"groups > {name}-g")
    terminal.keys("r")
    terminal.shows("Up and down")
    # From the value, which the rule does not need, to the topics.
    terminal.keys("Tab")
    terminal.type(name)
    terminal.keys("Enter")
    terminal.shows(rf"{name}-0: \(none\) -> 0")
    terminal.confirms()
    terminal.shows("partition of")
    terminal.shows(rf"{name}-0 .* 2 ")
    terminal.command(f"messages {name}")
    terminal.shows("2 found")
    terminal.keys("p")
    terminal.shows(f"Produce to {name}")
    terminal.keys("Tab", "Tab", "Tab")
    terminal.type("third")
    terminal.keys("Enter")
    terminal.shows("1 record, ")
    terminal.confirms()
    terminal.shows("3 found")
    terminal.command(f"group {name}-g")
    terminal.shows(rf"{name}-0 .* 3 ")
    # Reset to the latest.
    terminal.keys("r")
    terminal.shows("Up and down")
    terminal.keys("BTab", "Down", "Enter")
    terminal.shows(f"{name}-0: 0 -> 3")
    terminal.confirms()
    terminal.shows(rf"{name}-0 .* 0 ")
    # Delete both.
    terminal.keys("C-d")
    terminal.shows(f"Type {name}-g to confirm")
    terminal.type(f"{name}-g")
    terminal.keys("Enter")
    terminal.shows("deleted 1 group")
    terminal.command("topics")
    terminal.shows(name)
    terminal.keys("/")
    terminal.type(name)
    terminal.keys("Enter")
    terminal.shows(rf"/{name}")
    terminal.keys("C-d")
    terminal.shows(f"Type {name} to confirm")
    terminal.type(name)
    terminal.keys("Enter")
    terminal.shows("deleted 1 topic")
    terminal.keys("C-q")
    until(lambda: not terminal.is_alive(), "the end of the console")


@needs.tmux
def test_sixteen_colours(broker_cy: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, the console exits or stays empty in a terminal with 16 colours."""
    argv = [sys.executable, "-m", "admin_tui.cli", "--bootstrap", broker_cy.bootstrap, "--theme", "ansi-dark"]
    tmux = Tmux(tmp_path, *argv, term="screen")
    try:
        tmux.shows("Health")
        tmux.shows("connected")
        tmux.command("topics")
        tmux.shows("Topics")
        tmux.keys("C-q")
        until(lambda: not tmux.is_alive(), "the end of the console")
    finally:
        tmux.close()
