"""Alerts: rules of a TOML file, looked at again and again.

[[rule]]
name = "payments falls behind"
kind = "lag"
group = "payments*"      # a pattern; every group without it
records = 10_000         # and/or: seconds = 60
for_s = 30               # only after so long; 0 without it

[[rule]]
name = "offline"
kind = "offline_partition"
topic = "*"

[[rule]]
name = "hangs"
kind = "hanging_transaction"
topic = "*"

[[rule]]
name = "disk"
kind = "disk"
free_percent = 10        # and/or: free_bytes = 10_000_000_000
"""

from __future__ import annotations

import asyncio
import re
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker_cy.admin.errors import AdminError, Failure
from broker_cy.admin.text import count, duration, percent, size

if TYPE_CHECKING:
    from broker_cy.console.session import Session

INTERVAL_S: Final = 5.0
LOOK_TIMEOUT_S: Final = 30.0
RULES_MAX = 1_000
# Broken things of one rule that are told one by one; the rest is a number.
SUBJECTS_MAX = 50
_COMMON: dict[str, Any] = {"name": str, "kind": str, "for_s": (int, float)}
_KINDS: dict[str, dict[str, Any]] = {
    "lag": {"group": str, "records": int, "seconds": (int, float)},
    "offline_partition": {"topic": str},
    "hanging_transaction": {"topic": str},
    "disk": {"free_percent": (int, float), "free_bytes": int},
}
# Of these a rule needs at least one.
_NEEDED = {"lag": ("records", "seconds"), "disk": ("free_percent", "free_bytes")}
_TYPE_NAMES = {str: "a text", int: "a whole number", (int, float): "a number"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Fields of other kinds are at their defaults."""

    name: str
    kind: str
    for_s: float = 0.0
    group: str = "*"
    topic: str = "*"
    records: int | None = None
    seconds: float | None = None
    free_percent: float | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look said of a rule: `state` is ok, waiting, broken or unknown; `subject` what breaks it."""

    rule: Rule
    state: str
    subject: str
    text: str
    for_s: float | None


def load_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a file; AdminError, which names file, line and key, for what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise AdminError(Failure.INVALID, f"cannot be read: {error.strerror}", what=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AdminError(Failure.INVALID, f"is no TOML: {error}", what=str(path)) from None
    lines = _Lines(path, text)
    for key in data:
        if key != "rule":
            raise lines.error(None, key, f"{key} is not known; [[rule]] is")
    tables = data.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise lines.error(None, "rule", "rules are written as [[rule]]")
    if len(tables) > RULES_MAX:
        raise lines.error(RULES_MAX, "", f"{len(tables)} rules: {RULES_MAX} are allowed")
    rules = [_rule(lines, number, table) for number, table in enumerate(tables)]
    names: set[str] = set()
    for number, rule in enumerate(rules):
        if rule.name in names:
            raise lines.error(number, "name", f"name = {rule.name!r} is there twice")
        names.add(rule.name)
    return tuple(rules)


class _Lines:
    """Where things are in the file: the parser does not tell."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._starts = [at for at, line in enumerate(self._lines) if re.match(r"\s*\[\[\s*rule\s*\]\]", line)]

    def error(self, rule: int | None, key: str, reason: str) -> AdminError:
        """An error at `key` of the rule with that number (None: of the file)."""
        low, high = 0, len(self._lines)
        if rule is not None and rule < len(self._starts):
            low = self._starts[rule]
            high = self._starts[rule + 1] if rule + 1 < len(self._starts) else high
        found = low
        if key:
            pattern = re.compile(rf'\s*(\[+\s*)?"?{re.escape(key)}"?\s*[=\]]')
            found = next((at for at in range(low, high) if pattern.match(self._lines[at])), low)
        return AdminError(Failure.INVALID, reason, what=f"{self._path}, line {found + 1}")


def _rule(lines: _Lines, number: int, table: dict[str, Any]) -> Rule:
    kind = table.get("kind")
    if kind not in _KINDS:
        said = "kind is missing" if kind is None else f"kind = {kind!r}"
        raise lines.error(number, "kind", f"{said}: one of {', '.join(_KINDS)} is expected")
    if "name" not in table:
        raise lines.error(number, "", "name is missing")
    types = _COMMON | _KINDS[kind]
    for key, value in table.items():
        if key not in types:
            raise lines.error(number, key, f"{key} is not known of kind {kind}; {', '.join(types)} are")
        # bool is an int to Python, and no number to anybody else.
        if not isinstance(value, types[key]) or isinstance(value, bool):
            raise lines.error(number, key, f"{key} = {value!r}: {_TYPE_NAMES[types[key]]} is expected")
        if not isinstance(value, str) and value < 0:
            raise lines.error(number, key, f"{key} = {value}: 0 or more is allowed")
        if key == "free_percent" and value > 100:
            raise lines.error(number, key, f"{key} = {value}: at most 100 is allowed")
        if isinstance(value, str) and not value:
            raise lines.error(number, key, f"{key} is empty")
    needed = _NEEDED.get(kind, ())
    if needed and not any(key in table for key in needed):
        raise lines.error(number, "kind", f"kind = {kind!r} needs {' or '.join(needed)}")
    return Rule(**table)


# What breaks a rule: (subject, text) of each.
Broken = list[tuple[str, str]]


class Watch:
    """Looks at rules, and knows since when each is broken. A source a panel can be linked to."""

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules = tuple(rules)
        self.interval_s = interval_s
        self._clock = clock
        self._since_s: dict[tuple[str, str], float] = {}
        self.findings: tuple[Finding, ...] = ()
        self.error: str | None = None
        self._looked_at_s: float | None = None
        self._listeners: list[Callable[[], None]] = []
        self._is_looking = False

    @property
    def broken(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.state == "broken"]

    @property
    def age_s(self) -> float | None:
        return None if self._looked_at_s is None else self._clock() - self._looked_at_s

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)
        if self.findings:
            listener()

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def forget(self) -> None:
        """Another cluster is looked at from now on."""
        self._since_s.clear()
        self.findings = ()

    async def look(self, session: Session) -> list[str]:
        """Look once; what to tell of those that broke since. A look that is still under way is not joined by
        another."""
        if self._is_looking:
            return []
        self._is_looking = True
        try:
            asked = await self._ask(session)
        finally:
            self._is_looking = False
        before = {(finding.rule.name, finding.subject) for finding in self.broken}
        now = self._clock()
        findings: list[Finding] = []
        for rule, answer in zip(self.rules, asked, strict=True):
            findings += self._judged(rule, answer, now)
        self.findings = tuple(findings)
        self._looked_at_s = now
        for listener in list(self._listeners):
            listener()
        new = [finding for finding in self.broken if (finding.rule.name, finding.subject) not in before]
        return [f"{finding.rule.name}: {finding.text}" for finding in new]

    def _judged(self, rule: Rule, answer: Broken | str, now: float) -> list[Finding]:
        if isinstance(answer, str):
            return [Finding(rule, "unknown", "", answer, None)]
        subjects = {subject for subject, _ in answer}
        for key in [key for key in self._since_s if key[0] == rule.name and key[1] not in subjects]:
            del self._since_s[key]
        if not answer:
            return [Finding(rule, "ok", "", "holds", None)]
        findings = []
        for subject, text in answer[:SUBJECTS_MAX]:
            for_s = now - self._since_s.setdefault((rule.name, subject), now)
            findings.append(Finding(rule, "broken" if for_s >= rule.for_s else "waiting", subject, text, for_s))
        if len(answer) > SUBJECTS_MAX:
            last = findings[-1]
            findings[-1] = replace(last, text=f"{last.text} and {len(answer) - SUBJECTS_MAX} more")
        return findings

    async def _ask(self, session: Session) -> list[Broken | str]:
        """What each rule's look brought; a text where it failed."""

        async def one(rule: Rule) -> Broken | str:
            try:
                async with asyncio.timeout(LOOK_TIMEOUT_S):
                    return await _LOOKS[rule.kind](session, rule)
            except AdminError as error:
                return str(error)
            except TimeoutError:
                return f"no answer within {LOOK_TIMEOUT_S:g} s"

        # One after the other: rules of one kind use the same answers, and nothing is in a hurry.
        return [await one(rule) for rule in self.rules]


async def _lag(session: Session, rule: Rule) -> Broken:
    groups = [each.group_id for each in await session.client.groups.listed() if fnmatchcase(each.group_id, rule.group)]
    lags = (await session.client.lag.of(groups)).found if groups else {}
    found: Broken = []
    for group_id, lag in lags.items():
        if rule.records is not None and lag.total > rule.records:
            found.append((group_id, f"{group_id} is {count(lag.total)} records behind (allowed {count(rule.records)})"))
        elif rule.seconds is not None and lag.total:
            times = (await session.client.lag.times(lag, int(time.time() * 1000))).found
            worst = max((each for each in times.values() if each is not None), default=0)
            if worst > rule.seconds * 1000:
                allowed = duration(rule.seconds * 1000)
                found.append((group_id, f"{group_id} is {duration(worst)} behind (allowed {allowed})"))
    return found


async def _offline(session: Session, rule: Rule) -> Broken:
    return [
        (f"{topic.name}-{part.partition}", f"{topic.name}-{part.partition} has no leader")
        for topic in await session.client.topics.list_all()
        if fnmatchcase(topic.name, rule.topic)
        for part in topic.partitions
        if part.is_offline
    ]


async def _hanging(session: Session, rule: Rule) -> Broken:
    return [
        (
            f"{each.partition}/{each.producer.producer_id}",
            f"producer {each.producer.producer_id} hangs in {each.partition} for {duration(each.idle_ms)}",
        )
        for each in await session.find_hanging()
        if fnmatchcase(each.partition.topic, rule.topic)
    ]


async def _disk(session: Session, rule: Rule) -> Broken:
    found: Broken = []
    for directories in (await session.client.log_dirs.describe()).whole().values():
        for each in directories:
            if each.error:
                found.append((each.path, f"{each.path} of broker {each.broker_id}: {each.error}"))
            elif each.usable_bytes is not None and each.total_bytes:
                share = 100 * each.usable_bytes / each.total_bytes
                low = (rule.free_percent is not None and share < rule.free_percent) or (
                    rule.free_bytes is not None and each.usable_bytes < rule.free_bytes
                )
                if low:
                    free = f"{size(each.usable_bytes)} ({percent(each.usable_bytes, each.total_bytes)})"
                    found.append((each.path, f"{each.path} of broker {each.broker_id} has {free} free"))
    return found


_LOOKS = {"lag": _lag, "offline_partition": _offline, "hanging_transaction": _hanging, "disk": _disk}
