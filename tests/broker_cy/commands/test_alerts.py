"""`broker-cy alerts`: the rules without a console."""

from __future__ import annotations

import json
from pathlib import Path

from tests.broker_cy.commands.conftest import Cli, in_terminal
from tests.support.broker import Target
from tests.support.endpoint import Endpoint

RULES = """\
[[rule]]
name = "room"
kind = "disk"
free_percent = 100
"""


def test_the_rules_are_judged_once(broker_cy: Cli, tmp_path: Path) -> None:
    """If this fails, a monitoring job cannot tell from the exit code whether something is wrong."""
    assert broker_cy("alerts", "--json").json[0] == {
        "rule": "offline partitions",
        "kind": "offline_partition",
        "state": "ok",
        "subject": "",
        "text": "",
    }
    path = tmp_path / "alerts.toml"
    path.write_text(RULES)
    said = broker_cy("alerts", "--rules", path, code=1)
    assert ["firing", "room"] in [row[:2] for row in said.rows()]
    path.write_text(RULES.replace("disk", "dust"))
    assert f"{path}:3: " in broker_cy("alerts", "--rules", path, code=2).err
    assert "--webhook 'here': http://HOST" in broker_cy("alerts", "--webhook", "here", code=2).err


def test_a_cluster_that_is_away_is_an_alert(bare: Cli) -> None:
    """If this fails, a cluster that is down counts as healthy."""
    said = bare("alerts", "--bootstrap", "127.0.0.1:1", "--timeout", "1", "--json", code=1)
    states = {each["rule"]: each["state"] for each in said.json}
    assert states["broker away"] == "firing"
    assert set(states.values()) == {"firing", "unknown"}


def test_the_rules_are_those_beside_the_named_clusters(bare: Cli, tmp_path: Path) -> None:
    """If this fails, `--clusters-file X` watches X's cluster with the rules and the webhook of another one."""
    config = tmp_path / "clusters.toml"
    config.write_text('default = "x"\n[clusters.x]\nbootstrap = "127.0.0.1:1"\n')
    (tmp_path / "alerts.toml").write_text(RULES)
    said = bare("alerts", "--clusters-file", config, "--timeout", "1", "--json", code=1)
    assert "room" in {each["rule"] for each in said.json}
    refused = bare("alerts", "--clusters-file", config, "--notify", code=2).err
    assert f"--notify: the rules have no webhook to notify: add [webhook] to {tmp_path / 'alerts.toml'}" in refused
    (tmp_path / "alerts.toml").unlink()
    refused = bare("alerts", "--clusters-file", config, "--notify", code=2).err
    assert "add [webhook] to alerts.toml in the directory of the cluster file, which does not exist" in refused


def test_a_webhook_that_is_not_notified_is_named(bare: Cli, tmp_path: Path) -> None:
    """If this fails, a user who set up a webhook waits for notifications that this command does not send."""
    rules = tmp_path / "alerts.toml"
    rules.write_text('[webhook]\nurl = "http://127.0.0.1:1/alerts"\n')
    away = ("alerts", "--bootstrap", "127.0.0.1:1", "--timeout", "1", "--json", "--rules", rules)
    said = bare(*away, code=1)
    assert said.err == f"broker-cy: notifications are off; --notify posts alerts to the [webhook] of {rules}\n"
    assert said.json
    assert "notifications are off" not in bare(*away, "--webhook", "http://127.0.0.1:1/other", code=1).err


def test_alerts_are_followed_and_delivered(broker: Target, tmp_path: Path) -> None:
    """If this fails, a user relies on the webhook of a command that delivers nothing."""
    path = tmp_path / "alerts.toml"
    path.write_text(RULES)
    endpoint = Endpoint()
    try:
        arguments = ["alerts", "--follow", "--every", "50ms", "--rules", str(path), "--webhook", endpoint.url]
        shown = in_terminal([*arguments, "--bootstrap", broker.bootstrap, "--json"], interrupt_at='"firing"')
    finally:
        endpoint.close()
    (line,) = [line for line in shown.screen.splitlines() if line.startswith("{")]
    (payload,) = endpoint.payloads
    assert json.loads(line) == payload
    assert (payload["state"], payload["rule"]) == ("firing", "room")
