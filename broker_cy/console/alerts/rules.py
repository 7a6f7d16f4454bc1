"""Rules of alerts: the built-in ones, and those of a TOML file.

# alerts.toml. A rule whose name is new is added:
[[rule]]
name = "payments fall behind"
kind = "lag"
group = "payments*"      # a pattern; without it, every group
records = 10_000         # and/or: seconds = 60
for_s = 30               # fires only after so long; 0 without it

# One with the name of a built-in rule changes it ..
[[rule]]
name = "low disk space"
free_percent = 20

# .. or silences it.
[[rule]]
name = "stopped groups"
silent = true

[webhook]
url = "https://hooks.example.com/alerts"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from broker_cy.client.clusters import default_path
from broker_cy.client.errors import ClientError
from broker_cy.client.toml_file import Table, read
from broker_cy.core.classes import dataclass

RULES_MAX: Final = 1_000
_NUMBER: Final = (int, float)
_COMMON: Final[dict[str, Any]] = {"name": str, "kind": str, "for_s": _NUMBER, "silent": bool}
_TOPICS: Final[dict[str, Any]] = {"topic": str, "exclude": str}
_GROUPS: Final[dict[str, Any]] = {"group": str, "exclude": str}
_FLOWS: Final[dict[str, Any]] = {"flow": str, "exclude": str}
KINDS: Final[dict[str, dict[str, Any]]] = {
    "offline_partition": _TOPICS,
    "under_replicated_partition": _TOPICS,
    "hanging_transaction": _TOPICS,
    "disk": {"free_percent": _NUMBER, "free_bytes": int},
    "failed_disk": {},
    "stalled_group": _GROUPS,
    "stopped_group": _GROUPS,
    "lag": {**_GROUPS, "records": int, "seconds": _NUMBER},
    "broker_away": {},
    "leaderless_quorum": {},
    "voter_away": {},
    "mirror_stopped": _FLOWS,
    "mirror_lag": {**_FLOWS, "records": int, "seconds": _NUMBER},
    "mirror_problem": _FLOWS,
    "mirror_circle": _FLOWS,
}
# A rule of these kinds needs at least one of the keys.
_NEEDED: Final = {
    "lag": ("records", "seconds"),
    "disk": ("free_percent", "free_bytes"),
    "mirror_lag": ("records", "seconds"),
}
_WEBHOOK: Final[dict[str, Any]] = {"url": str, "timeout_s": _NUMBER, "attempts": int}
_TYPE_NAMES: Final = {str: "a string", int: "an integer", _NUMBER: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Fields that its kind does not use have their defaults; `topic`, `group`, `flow` and `exclude` are
    patterns.
    """

    name: str
    kind: str
    for_s: float = 0.0
    silent: bool = False
    group: str = "*"
    topic: str = "*"
    flow: str = "*"
    exclude: str = ""
    records: int | None = None
    seconds: float | None = None
    free_percent: float | None = None
    free_bytes: int | None = None

    def is_about(self, name: str) -> bool:
        """Return whether the rule applies to a topic, group or flow of a mirror with this name."""
        keys = KINDS[self.kind]
        pattern = self.group if "group" in keys else self.flow if "flow" in keys else self.topic
        return fnmatchcase(name, pattern) and not (self.exclude and fnmatchcase(name, self.exclude))


# Built-in rules. A window of 60 s is longer than the usual time between two commits of a group; elections and restarts
# take a few seconds. A mirror that starts again pauses for up to 60 s.
BUILT_IN: Final = (
    Rule("offline partitions", "offline_partition", for_s=10),
    Rule("under-replicated partitions", "under_replicated_partition", for_s=30),
    Rule("hanging transactions", "hanging_transaction"),
    Rule("low disk space", "disk", free_percent=10),
    Rule("failed disks", "failed_disk"),
    Rule("stalled groups", "stalled_group", for_s=60),
    Rule("stopped groups", "stopped_group", for_s=60),
    Rule("broker away", "broker_away", for_s=10),
    Rule("no quorum leader", "leaderless_quorum", for_s=10),
    Rule("voter away", "voter_away", for_s=5),
    Rule("mirrors not running", "mirror_stopped", for_s=30),
    Rule("mirrors behind", "mirror_lag", for_s=60, seconds=300),
    Rule("mirror problems", "mirror_problem", for_s=60),
    Rule("mirrors in a circle", "mirror_circle", for_s=30),
)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The destination of alerts. `attempts` is the maximum number of attempts of one delivery."""

    url: str
    timeout_s: float = 5.0
    attempts: int = 10


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """The rules in effect, the destination of alerts, and the file that was read; None: no file was."""

    rules: tuple[Rule, ...] = BUILT_IN
    webhook: WebhookSettings | None = None
    path: Path | None = None


def default_rules_path(clusters: Path | None = None) -> Path:
    """Return the path of alerts.toml in the directory of the cluster file."""
    return (clusters or default_path()).with_name("alerts.toml")


def load_settings(path: Path) -> AlertSettings:
    """Return the built-in rules with the changes of a file. Raises ClientError, which names file, line and key."""
    top = read(path)
    data, lines = top.values, _Lines(top)
    for key in data:
        if key not in ("rule", "webhook"):
            raise lines.error(None, key, f"{key} is not known; allowed are [[rule]] and [webhook]")
    tables = data.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise lines.error(None, "rule", "a rule is written as [[rule]]")
    if len(tables) > RULES_MAX:
        raise lines.error(RULES_MAX, "", f"{len(tables)} rules: {RULES_MAX} are allowed")
    return AlertSettings(_rules(lines, tables), _webhook(lines, data.get("webhook")), path)


def check_url(url: str) -> str:
    """Return `url`. Raises ValueError if it is not a valid URL for a webhook."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or any(sign <= " " for sign in url):
        raise ValueError(f"{url!r}: http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH is expected")
    # `port` raises ValueError if the port is not a number, or too large.
    return url if parts.port is None or parts.port > 0 else check_url("")


class _Lines:
    """Errors at keys of the file."""

    def __init__(self, top: Table) -> None:
        self._top = top

    def error(self, rule: int | None, key: str, reason: str) -> ClientError:
        """Return an error at `key` of the rule with that number (None: of the file, or of [webhook])."""
        if rule is not None:
            return self._top.at(f"rule[{rule}].{key}", reason)
        return self._top.at(key if key in self._top.values else f"webhook.{key}", reason)


def _rules(lines: _Lines, tables: Iterable[dict[str, Any]]) -> tuple[Rule, ...]:
    rules = {rule.name: rule for rule in BUILT_IN}
    named: set[str] = set()
    for number, table in enumerate(tables):
        name = table.get("name")
        if name is None:
            raise lines.error(number, "", "name is missing")
        if isinstance(name, str) and name in named:
            raise lines.error(number, "name", f"name = {name!r} occurs twice")
        rule = _rule(lines, number, table, rules.get(name) if isinstance(name, str) else None)
        rules[rule.name] = rule
        named.add(rule.name)
    return tuple(rule for rule in rules.values() if not rule.silent)


def _rule(lines: _Lines, number: int, table: dict[str, Any], base: Rule | None) -> Rule:
    """Build a rule of the file; `base` is the built-in rule that it changes."""
    kind = table.get("kind", None if base is None else base.kind)
    if kind not in KINDS:
        said = "kind is missing" if kind is None else f"kind = {kind!r}"
        names = ", ".join(rule.name for rule in BUILT_IN)
        change = f"; without a kind, the name is that of a built-in rule: {names}" if kind is None else ""
        raise lines.error(number, "kind", f"{said}: one of {', '.join(KINDS)} is expected{change}")
    if base is not None and kind != base.kind:
        raise lines.error(number, "kind", f"kind = {kind!r}: the built-in rule {base.name!r} is of kind {base.kind}")
    _check_types(lines, number, table, _COMMON | KINDS[kind], f"a rule of kind {kind}")
    if table.get("free_percent", 0) > 100:
        raise lines.error(number, "free_percent", f"free_percent = {table['free_percent']}: at most 100 is allowed")
    needed = _NEEDED.get(kind, ())
    if needed and base is None and not any(key in table for key in needed):
        raise lines.error(number, "kind", f"kind = {kind!r} needs {' or '.join(needed)}")
    return Rule(**table) if base is None else replace(base, **table)


def _webhook(lines: _Lines, table: Any) -> WebhookSettings | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise lines.error(None, "webhook", "the webhook is written as [webhook]")
    _check_types(lines, None, table, _WEBHOOK, "[webhook]")
    if "url" not in table:
        raise lines.error(None, "webhook", "url is missing")
    try:
        check_url(table["url"])
    except ValueError as error:
        raise lines.error(None, "url", f"url = {error}") from None
    for key, low, high in (("timeout_s", 0.1, 60), ("attempts", 1, 100)):
        if key in table and not low <= table[key] <= high:
            raise lines.error(None, key, f"{key} = {table[key]}: {low} to {high} is allowed")
    return WebhookSettings(**table)


def _check_types(
    lines: _Lines, number: int | None, table: Mapping[str, Any], types: Mapping[str, Any], what: str
) -> None:
    for key, value in table.items():
        if key not in types:
            raise lines.error(number, key, f"{key} is not known in {what}; allowed are {', '.join(types)}")
        # In Python, bool is a subclass of int.
        if not isinstance(value, types[key]) or (isinstance(value, bool) and types[key] is not bool):
            raise lines.error(number, key, f"{key} = {value!r}: {_TYPE_NAMES[types[key]]} is expected")
        if not isinstance(value, str | bool) and not 0 <= value < 1e18:
            raise lines.error(number, key, f"{key} = {value}: 0 or more is allowed")
        if isinstance(value, str) and not value:
            raise lines.error(number, key, f"{key} is empty")
