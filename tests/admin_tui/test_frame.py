"""The frame of every screen: navigation, filters, keys, clusters, and a broker that fails and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from admin_tui import cli
from admin_tui.registry import BY_NAME, SPECS, binding_ids
from admin_tui.screens import view
from admin_tui.screens.overview import OverviewView
from admin_tui.settings import Settings, load_settings
from broker_cy.admin import ClientError, Failure
from broker_cy.admin.topics import NewTopic
from broker_cy.console.acts.plan import Plan
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import Terminal, drive, entry_of
from tests.support.broker import BrokerProcess, Target


def test_commands_complete_go_somewhere_and_come_back(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a screen cannot be opened or closed."""

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(name, 1)])).whole()
        await terminal.command("topics")
        await terminal.goes_to("topics")
        await terminal.shows("Topics")
        await terminal.press("colon")
        await terminal.type(f"topic {name[:6]}")
        await terminal.until(lambda: terminal.app.complete(f"topic {name[:6]}", []) != [], "the topic's name")
        await terminal.press("escape")
        await terminal.command("groups")
        await terminal.goes_to("groups")
        await terminal.press("escape")
        await terminal.goes_to("overview")
        await terminal.command("nowhere")
        await terminal.shows("unknown command nowhere")
        await terminal.command("topic")
        await terminal.shows("usage: :topic TOPIC")
        await terminal.press("colon", "up", "up", "enter")
        await terminal.shows("unknown command nowhere")
        await terminal.command("theme nord")
        assert terminal.app.theme == "nord"
        await terminal.command("theme plaid")
        await terminal.shows("the themes are")
        await terminal.press("question_mark")
        await terminal.shows("Keys", "view.filter")
        await terminal.press("escape")
        await terminal.hides("view.filter")
        await terminal.press("f1")
        await terminal.shows("A table")
        await terminal.press("escape", "q")
        await terminal.until(lambda: terminal.app.return_code == 0, "the end")

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_filter_and_cursor_outlive_a_refresh(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, every five seconds the cursor jumps, and a user deletes another item than intended."""

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(f"{name}-{n}", 1) for n in (1, 2, 3)])).whole()
        await terminal.command("topics")
        await terminal.goes_to("topics")
        await terminal.press("slash")
        await terminal.type(name)
        await terminal.shows(f"/{name}", f"{name}-3")
        await terminal.press("enter", "g", "j", "space")
        grid = terminal.app.screen.grid  # type: ignore[attr-defined]
        assert grid.selected.info.name == f"{name}-3"
        before = terminal.app.session.topics().answers
        # A topic is inserted before it.
        (await terminal.client.topics.create([NewTopic(f"{name}-0", 1)])).whole()
        await terminal.press("ctrl+r")
        await terminal.until(lambda: terminal.app.session.topics().answers > before, "a refresh")
        await terminal.shows(f"{name}-0", "1 marked")
        assert grid.selected.info.name == f"{name}-3"
        assert [row.info.name for row in grid.chosen] == [f"{name}-2"]
        await terminal.press("T")
        assert [row.info.name for row in grid.view] == [f"{name}-{n}" for n in (3, 2, 1, 0)]
        assert grid.selected.info.name == f"{name}-3"
        await terminal.press("escape")
        assert grid.pattern == ""
        await terminal.goes_to("topics")
        await terminal.press("g", "n")
        assert grid.selected.info.name.startswith(name)

    drive(broker_cy.bootstrap, job)


@pytest.mark.full
def test_a_broker_that_goes_away_leaves_the_last_data_with_its_age(
    make_broker: Callable[..., Target], name: str
) -> None:
    """If this fails, the screen empties when the broker restarts, or never recovers."""
    broker = make_broker()

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(name, 2)])).whole()
        await terminal.client.records.producer().send(name, [Record(value=b"x")])
        await terminal.command("topics")
        await terminal.shows(name, "connected")
        broker.kill()
        await terminal.until(lambda: "old:" in terminal.text(), "the age of what is shown")
        await terminal.shows(name, "unreachable")
        # A panel that has never had data shows the reason.
        await terminal.command("brokers")
        await terminal.goes_to("brokers")
        await terminal.shows("unreachable")
        broker.restart()
        await terminal.shows("connected", "controller")
        await terminal.command("topics")
        await terminal.shows(name)
        await terminal.hides("old:")

    drive(broker.bootstrap, job, timeout_s=5.0, size=(120, 30))


def test_a_broker_that_is_not_there_is_said_to_be_away() -> None:
    """If this fails, the console exits with a traceback, or shows nothing."""

    async def job(terminal: Terminal) -> None:
        await terminal.shows("unreachable", "no answer", "127.0.0.1:1")
        await terminal.command("topics")
        await terminal.shows("no answer")

    drive("127.0.0.1:1", job, timeout_s=1.0, size=(120, 30))


def test_many_brokers_leave_room_for_the_name_of_the_screen() -> None:
    """If this fails, a narrow terminal does not say which screen is shown, if a cluster has no short name."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("replication")
        await terminal.shows("…  replication")

    drive(",".join(f"127.0.0.1:{port}" for port in range(1, 6)), job, timeout_s=1.0, size=(80, 24))


def test_clusters_of_the_file(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a user of two clusters needs two terminals, or changes the wrong cluster."""
    clusters = {"a": entry_of(broker_cy.bootstrap), "b": entry_of(broker_cy.bootstrap, is_readonly=True)}

    async def job(terminal: Terminal) -> None:
        await terminal.shows("connected")
        await terminal.command("cluster b")
        await terminal.shows("READ-ONLY", "connected")
        await terminal.until(lambda: isinstance(terminal.app.screen, OverviewView), "the overview")
        await terminal.command("cluster c")
        await terminal.shows("the clusters are a, b")

    drive(broker_cy.bootstrap, job, clusters=clusters, size=(120, 30))


def test_keys_can_be_rebound(broker_cy: BrokerProcess, name: str, tmp_path: Path) -> None:
    """If this fails, a key that a terminal keeps to itself can never be pressed."""
    path = tmp_path / "tui.toml"
    path.write_text('theme = "nord"\n[keys]\n"topics.create" = "f5"\n')

    async def job(terminal: Terminal) -> None:
        assert terminal.app.theme == "nord"
        await terminal.command("topics")
        await terminal.goes_to("topics")
        await terminal.press("c")
        await terminal.press("f5")
        await terminal.shows("Create a topic")

    drive(broker_cy.bootstrap, job, settings=load_settings(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("them = 1", "tui.toml:1: them: unknown key; did you mean 'theme'? (allowed: alerts, keys"),
        ("theme = 5", "tui.toml:1: theme: 5 is not allowed (allowed: "),
        ("utc = 1", "tui.toml:1: utc: 1 is not allowed (allowed: true, false)"),
        ('theme = "plaid"', "tui.toml:1: theme: 'plaid' is not allowed (allowed: "),
        ('[keys]\n"grid.dwn" = "j"', "tui.toml:2: keys.grid.dwn: is not known; allowed are grid.down"),
        ('[keys]\n"grid.down" = 5', "keys separated by commas"),
        ("theme = ", "not TOML"),
    ],
)
def test_bad_settings_name_file_and_field(tmp_path: Path, text: str, said: str) -> None:
    """If this fails, a typing mistake in the file is ignored."""
    path = tmp_path / "tui.toml"
    path.write_text(text)
    with pytest.raises(ClientError) as caught:
        load_settings(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_names_of_earlier_releases(tmp_path: Path) -> None:
    """If this fails, a user's habits and the user's file of keys end with an update."""
    names = {
        "moves": "reassignments",
        "users": "scram-users",
        "refusals": "denied-requests",
        "tokens": "delegation-tokens",
    }
    assert {old: BY_NAME[old].name for old in names} == names
    path = tmp_path / "tui.toml"
    path.write_text('[keys]\n"moves.cancel" = "f5"\n"users.create" = "f6"\n"brokers.moves" = "f7"\n')
    assert load_settings(path).keys == {
        "reassignments.cancel": "f5",
        "scram-users.create": "f6",
        "brokers.reassignments": "f7",
    }


def test_every_binding_has_an_id() -> None:
    """If this fails, a key cannot be rebound."""
    from textual.binding import Binding

    ids = binding_ids()
    assert {"app.quit", "grid.down", "view.back", "act.cancel", "messages.tail", "command.leave"} <= ids
    for spec in SPECS:
        for binding in spec.load().BINDINGS:
            assert isinstance(binding, Binding)
            assert binding.id in ids


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bootstrap", "nowhere:port"], "is not an address"),
        (["--cluster", "absent", "--clusters-file", "CONFIG"], "unknown cluster 'absent'; known: one"),
        (["--clusters-file", "absent.toml"], "cannot be read"),
        (["--cluster", "one", "--bootstrap", "a:1"], "cannot be used together"),
        (["--command-config", "absent.properties"], "absent.properties"),
        (["-X", "security.protocol"], "-X: NAME=VALUE is expected"),
        (["--timeout", "0"], "--timeout 0"),
        (["--theme", "plaid"], "--theme plaid"),
        (["--alerts", "absent.toml"], "cannot be read"),
        (["--registry", "nonsense"], "no URL of a registry"),
        (["--mirrors", "nonsense"], "is not an address"),
    ],
)
def test_bad_options_are_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the console starts with other options than those requested."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BROKER_CY_CLUSTERS", raising=False)
    config = tmp_path / "clusters.toml"
    config.write_text('[clusters.one]\nbootstrap = "127.0.0.1:9092"\n')
    assert cli.main([str(config) if each == "CONFIG" else each for each in arguments]) == 2
    assert said in capsys.readouterr().err
    assert cli.main([str(config) if each == "CONFIG" else each for each in [*arguments, "--json"]]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["failure"] == "invalid"


def test_an_address_needs_no_cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an error in a file that is not needed keeps a user from a broker whose address is given."""
    monkeypatch.setenv("BROKER_CY_CLUSTERS", str(tmp_path / "clusters.toml"))
    (tmp_path / "clusters.toml").write_text("[clusters.one\n")
    console = cli.build(cli.parser().parse_args(["--bootstrap", "127.0.0.1:9"]))
    assert str(console.session.entry.bootstrap[0]) == "127.0.0.1:9"
    with pytest.raises(ClientError, match="not TOML"):
        console._change_cluster(["one"])
    for options in ([], ["--bootstrap", "127.0.0.1:9", "--clusters-file", str(tmp_path / "clusters.toml")]):
        with pytest.raises(ClientError, match="not TOML"):
            cli.build(cli.parser().parse_args(options))


def test_settings_beside_the_clusters_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a file at its default path is ignored."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BROKER_CY_CLUSTERS", raising=False)
    (tmp_path / "broker-cy").mkdir()
    (tmp_path / "broker-cy" / "tui.toml").write_text('readonly = true\nalerts = "alerts.toml"\n')
    (tmp_path / "broker-cy" / "alerts.toml").write_text('[[rule]]\nname = "a"\nkind = "lag"\nrecords = 1\n')
    (tmp_path / "broker-cy" / "clusters.toml").write_text(
        'default = "one"\n[clusters.one]\nbootstrap = "127.0.0.1:9"\n'
    )
    console = cli.build(cli.parser().parse_args([]))
    assert console.is_readonly
    assert console.session.entry.name == "one"
    assert console.alerts is not None
    assert console.command("topics", "list") == "broker-cy topics list --cluster one"
    # A file of clusters in another directory uses the settings next to it.
    (tmp_path / "else.toml").write_text('[clusters.two]\nbootstrap = "127.0.0.1:9"\n')
    (tmp_path / "tui.toml").write_text("utc = true\n")
    assert cli.build(cli.parser().parse_args(["--clusters-file", str(tmp_path / "else.toml")])).settings.utc


def test_an_act_shows_that_it_waits_for_the_broker(broker_cy: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a form closes and an unavailable broker is retried for half a minute, without a message."""
    monkeypatch.setattr(view, "WAIT_SHOWN_S", 0.01)

    async def job(terminal: Terminal) -> None:
        answered = asyncio.Event()

        async def plan(values: Mapping[str, Any]) -> Plan:
            await answered.wait()
            raise ClientError(Failure.TIMED_OUT, "no answer")

        shown = terminal.app.screen
        assert isinstance(shown, view.View)
        shown.act(plan)
        await terminal.shows("still waiting for the broker")
        answered.set()
        await terminal.shows("no answer")

    drive(broker_cy.bootstrap, job)


def test_settings_have_defaults() -> None:
    """If this fails, the console does not work without a settings file."""
    assert Settings().keys == {}
