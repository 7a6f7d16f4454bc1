"""The built-in rules, and alerts.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.admin import ClientError
from broker_cy.console.alerts.looks import LOOKS
from broker_cy.console.alerts.rules import BUILT_IN, KINDS, Rule, WebhookSettings, load_settings

GOOD = """\
# Two rules and a webhook.
[[rule]]
name = "behind"
kind = "lag"
group = "payments*"
records = 10

[[rule]]
name = "low disk space"
free_percent = 5

[webhook]
url = "http://127.0.0.1:8000/alerts?key=1"
attempts = 3
"""


def load(tmp_path: Path, text: str) -> tuple[Rule, ...]:
    path = tmp_path / "alerts.toml"
    path.write_text(text)
    return load_settings(path).rules


def test_rules_are_added_changed_and_silenced(tmp_path: Path) -> None:
    """If this fails, a file replaces the built-in rules, and an offline partition no longer raises an alert."""
    rules = load(tmp_path, GOOD + '[[rule]]\nname = "stopped groups"\nsilent = true\n')
    by_name = {rule.name: rule for rule in rules}
    assert set(by_name) == {rule.name for rule in BUILT_IN} - {"stopped groups"} | {"behind"}
    assert by_name["low disk space"] == Rule("low disk space", "disk", free_percent=5)
    assert by_name["behind"] == Rule("behind", "lag", group="payments*", records=10)
    assert by_name["stalled groups"].for_s == 60
    assert load_settings(tmp_path / "alerts.toml").webhook == WebhookSettings(
        "http://127.0.0.1:8000/alerts?key=1", 5.0, 3
    )


def test_every_kind_can_be_judged() -> None:
    """If this fails, a kind of rule is accepted and never evaluated."""
    assert set(KINDS) == set(LOOKS)
    assert {rule.kind for rule in BUILT_IN} == set(KINDS) - {"lag"}


def test_patterns_and_exceptions() -> None:
    """If this fails, a rule cannot exclude groups that are intentionally stopped."""
    rule = Rule("r", "stopped_group", group="pay*", exclude="pay-test*")
    assert [name for name in ("pay", "pay-1", "pay-test-1", "x") if rule.is_about(name)] == ["pay", "pay-1"]
    assert Rule("r", "offline_partition", topic="a*", group="b").is_about("ab")


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        (
            'kind = "lag"',
            'kind = "lags"',
            4,
            "rule[0].kind: 'lags' is not allowed; did you mean 'lag'? (",
        ),
        ('kind = "lag"', "", 2, "without a kind, the name is that of a built-in rule: offline partitions"),
        (
            "records = 10",
            "record = 10",
            6,
            "rule[0].record: unknown key; did you mean 'records'? (allowed: exclude",
        ),
        ("records = 10", 'records = "10"', 6, "rule[0].records: '10' is not a whole number"),
        ("records = 10", "records = true", 6, "rule[0].records: True is not a whole number"),
        ("records = 10", "", 4, "needs records or seconds"),
        ("records = 10", "records = 10\nsilent = 1", 7, "rule[0].silent: 1 is not allowed (allowed: true, false)"),
        ("records = 10", "records = 10\nfor_s = nan", 7, "rule[0].for_s: nan is not a number from 0 to"),
        ("free_percent = 5", "free_percent = 101", 10, "rule[1].free_percent: 101 is not a number from 0 to 100"),
        ("free_percent = 5", "free_percent = -1", 10, "rule[1].free_percent: -1 is not a number from 0 to 100"),
        ("free_percent = 5", 'kind = "lag"', 10, "the built-in rule 'low disk space' is of kind disk"),
        ('name = "low disk space"', 'name = "behind"', 9, "occurs twice"),
        ('name = "low disk space"', "", 8, "rule[1].name: is missing"),
        ('name = "low disk space"', 'name = ""\nkind = "disk"', 9, "rule[1].name: '' is not a text"),
        ("[[rule]]", "[[rules]]", 2, "rules: unknown key; did you mean 'rule'? (allowed: rule, webhook)"),
        ("attempts = 3", "attempts = 0", 14, "webhook.attempts: 0 is out of range (allowed: 1 to 100)"),
        ("attempts = 3", "retries = 3", 14, "webhook.retries: unknown key (allowed: attempts, timeout_s, url)"),
        ('url = "http:', 'url = "ftp:', 13, "http://HOST[:PORT]/PATH or https://"),
        (":8000/", ":80000/", 13, "webhook.url: "),
        ('url = "http://127.0.0.1:8000/alerts?key=1"', "", 12, "webhook.url: is missing"),
    ],
)
def test_a_bad_file_is_refused_with_file_line_and_key(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    """If this fails, a rule with an unintended meaning never fires."""
    assert old in GOOD
    with pytest.raises(ClientError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert f"{tmp_path / 'alerts.toml'}:{line}: " in str(caught.value)
    assert said in str(caught.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """If this fails, the console runs without the rules that its users rely on."""
    with pytest.raises(ClientError, match="cannot be read"):
        load_settings(tmp_path / "absent.toml")
    with pytest.raises(ClientError, match="not TOML"):
        load(tmp_path, "[[rule]\n")
