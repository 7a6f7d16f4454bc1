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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from broker_cy.client.clusters import default_path
from broker_cy.client.toml_file import Table, read
from broker_cy.client.toml_values import boolean, integer, number, one_of, text
from broker_cy.core.classes import dataclass

RULES_MAX: Final = 1_000
_MOST: Final = 10**18
_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 10
Parse = Callable[[Any], Any]
_COUNT: Final = integer(0, _MOST)
_NUMBER: Final = number(0, _MOST)
# The keys of all rules but name and kind, and those of each kind, with their parsers.
_COMMON: Final[Mapping[str, Parse]] = {"for_s": _NUMBER, "silent": boolean}
_TOPICS: Final[Mapping[str, Parse]] = {"topic": text, "exclude": text}
_GROUPS: Final[Mapping[str, Parse]] = {"group": text, "exclude": text}
_FLOWS: Final[Mapping[str, Parse]] = {"flow": text, "exclude": text}
KINDS: Final[Mapping[str, Mapping[str, Parse]]] = {
    "offline_partition": _TOPICS,
    "under_replicated_partition": _TOPICS,
    "hanging_transaction": _TOPICS,
    "disk": {"free_percent": number(0, 100), "free_bytes": _COUNT},
    "failed_disk": {},
    "stalled_group": _GROUPS,
    "stopped_group": _GROUPS,
    "lag": {**_GROUPS, "records": _COUNT, "seconds": _NUMBER},
    "broker_away": {},
    "leaderless_quorum": {},
    "voter_away": {},
    "mirror_stopped": _FLOWS,
    "mirror_lag": {**_FLOWS, "records": _COUNT, "seconds": _NUMBER},
    "mirror_problem": _FLOWS,
    "mirror_circle": _FLOWS,
    "streams_failed": _GROUPS,
}
# A rule of these kinds needs at least one of the keys.
_NEEDED: Final = {
    "lag": ("records", "seconds"),
    "disk": ("free_percent", "free_bytes"),
    "mirror_lag": ("records", "seconds"),
}


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
    Rule("failed applications", "streams_failed", for_s=30),
)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The destination of alerts. `attempts` is the maximum number of attempts of one delivery."""

    url: str
    timeout_s: float = _TIMEOUT_S
    attempts: int = _ATTEMPTS


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
    tables = top.tables("rule")
    if len(tables) > RULES_MAX:
        raise tables[RULES_MAX].error("", f"{len(tables):,} rules: {RULES_MAX:,} are allowed")
    rules, webhook = _rules(tables), top.table("webhook")
    top.finish()
    return AlertSettings(rules, _webhook(webhook) if "webhook" in top.values else None, path)


def check_url(url: str) -> str:
    """Return `url`. Raises ValueError if it is not a valid URL for a webhook."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or any(sign <= " " for sign in url):
        raise ValueError(f"{url!r}: http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH is expected")
    # `port` raises ValueError if the port is not a number, or too large.
    return url if parts.port is None or parts.port > 0 else check_url("")


def _rules(tables: Iterable[Table]) -> tuple[Rule, ...]:
    rules = {rule.name: rule for rule in BUILT_IN}
    named: set[str] = set()
    for table in tables:
        name = table.take("name", text)
        if name in named:
            raise table.error("name", f"{name!r} occurs twice")
        rules[name] = _rule(table, name, rules.get(name))
        named.add(name)
    return tuple(rule for rule in rules.values() if not rule.silent)


def _rule(table: Table, name: str, base: Rule | None) -> Rule:
    """Return a rule of the file; `base` is the built-in rule that it changes."""
    if base is None and "kind" not in table.values:
        names = ", ".join(rule.name for rule in BUILT_IN)
        raise table.error("kind", f"is missing; without a kind, the name is that of a built-in rule: {names}")
    kind = table.take("kind", one_of(*KINDS), "" if base is None else base.kind)
    if base is not None and kind != base.kind:
        raise table.error("kind", f"{kind!r}: the built-in rule {base.name!r} is of kind {base.kind}")
    taken = {key: table.take(key, parse, None) for key, parse in {**_COMMON, **KINDS[kind]}.items()}
    table.finish()
    given = {key: value for key, value in taken.items() if value is not None}
    needed = _NEEDED.get(kind, ())
    if needed and base is None and not any(key in given for key in needed):
        raise table.error("kind", f"{kind!r} needs {' or '.join(needed)}")
    return Rule(name, kind, **given) if base is None else replace(base, **given)


def _webhook(table: Table) -> WebhookSettings:
    found = WebhookSettings(
        table.take("url", lambda value: check_url(text(value))),
        table.take("timeout_s", number(0.1, 60), _TIMEOUT_S),
        table.take("attempts", integer(1, 100), _ATTEMPTS),
    )
    table.finish()
    return found
