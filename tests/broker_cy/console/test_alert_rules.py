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
        ('kind = "lag"', 'kind = "lags"', 4, "kind = 'lags': one of offline_partition, under_replicated_partition"),
        ('kind = "lag"', "", 2, "without a kind, the name is that of a built-in rule: offline partitions"),
        ("records = 10", "record = 10", 6, "record is not known in a rule of kind lag; allowed are name, kind, for_s"),
        ("records = 10", 'records = "10"', 6, "records = '10': an integer is expected"),
        ("records = 10", "records = true", 6, "an integer is expected"),
        ("records = 10", "", 4, "needs records or seconds"),
        ("records = 10", "records = 10\nsilent = 1", 7, "silent = 1: true or false is expected"),
        ("records = 10", "records = 10\nfor_s = nan", 7, "for_s = nan: 0 or more is allowed"),
        ("free_percent = 5", "free_percent = 101", 10, "at most 100"),
        ("free_percent = 5", "free_percent = -1", 10, "0 or more"),
        ("free_percent = 5", 'kind = "lag"', 10, "the built-in rule 'low disk space' is of kind disk"),
        ('name = "low disk space"', 'name = "behind"', 9, "occurs twice"),
        ('name = "low disk space"', "", 8, "name is missing"),
        ('name = "low disk space"', 'name = ""\nkind = "disk"', 9, "name is empty"),
        ("[[rule]]", "[[rules]]", 2, "rules is not known; allowed are [[rule]] and [webhook]"),
        ("attempts = 3", "attempts = 0", 14, "attempts = 0: 1 to 100 is allowed"),
        ("attempts = 3", "retries = 3", 14, "retries is not known in [webhook]; allowed are url, timeout_s, attempts"),
        ('url = "http:', 'url = "ftp:', 13, "http://HOST[:PORT]/PATH or https://"),
        (":8000/", ":80000/", 13, "url = "),
        ('url = "http://127.0.0.1:8000/alerts?key=1"', "", 12, "url is missing"),
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
