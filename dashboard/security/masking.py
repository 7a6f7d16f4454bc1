"""Masking: fields of records that users without `unmasked` must not see, hidden before anything is encoded.

Rules are tables of dashboard.toml:

[[mask]]
topics = ["payments*"]
fields = ["$.card.number", "email", "**.ssn"]
keys = true
headers = ["authorization"]
with = "***"

`fields` are paths in JSON values; keys are hidden entirely, with `keys`. `$.card.number` starts at the top; `*` stands
for one name and `**` for any number of them; a path without `$` matches at any depth, as if it started with `$.**`; `$`
alone is the whole value. A name with dots is written ["a.b"]. Names match in any letter case and without underscores,
because Protobuf's `card_number` is `cardNumber` in JSON, and lists are transparent: `$.items.sku` is the sku of each
item. A member that a path matches is replaced together with everything in it.

Keys and values that name a schema are judged by their decoded form.

A topic that has rules with fields shows only what these rules can judge. Values that are not JSON objects or lists of
them, and values above JSON_BYTES_MAX, are hidden entirely, with a note of the length. JSON within a text of a value is
masked as if it were not in a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from broker_cy.console.payload import JSON_BYTES_MAX
from broker_cy.console.record_filter import RecordFilter, parse_path
from broker_cy.reporting.numbers import plural
from broker_cy.wire.records import Record
from dashboard.security.fields import Refuse, Table
from dashboard.security.roles import Scope, matches

DEFAULT_REPLACEMENT: Final = "***"
MASKS_MAX: Final = 200
# The depth of JSON within texts of JSON; deeper texts are hidden.
_NESTED_MAX: Final = 3
_TOPICS_CACHED_MAX: Final = 20_000
_KNOWN: Final = ("topics", "fields", "keys", "headers", "with")
_STEP = re.compile(r"\.?(\*\*|\*|[^.\[\]\"*$\s]+)|\[\"([^\"]+)\"\]")
_ANY: Final = "*"
_DEEP: Final = "**"

# A path as its steps; the states of a value are the positions in all paths that its names have reached.
Steps = tuple[str, ...]
States = frozenset[tuple[int, int]]


class _Number(str):
    """A number of a JSON text as it is written there: large and long numbers must not change."""


class _Unreadable(Exception):
    """The value cannot be judged, so it is hidden."""


def _folded(name: str) -> str:
    """Return a name as names are compared. One that is underscores only stays as it is."""
    folded = name.casefold()
    return folded.replace("_", "") or folded


def parse_field(text: str) -> Steps:
    """Return the steps of a path from the top. Raises ValueError, which describes the syntax."""
    rest = text[1:] if text.startswith("$") else text
    steps: list[str] = [] if text.startswith("$") else [_DEEP]
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None or (at == 0 and text.startswith("$") and rest[0] not in ".["):
            raise ValueError(f'{text!r} is not a field: $.name.other, name, **.name, $.*.name or $["a.b"] is expected')
        name, quoted = match.groups()
        steps.append(_folded(quoted if quoted is not None else name))
        at = match.end()
    if not text or (steps and steps[-1] == _DEEP):
        raise ValueError(f"{text!r} is not a field: it must end with a name or *")
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class Mask:
    """One rule. `fields` are paths as `parse_field` returns them; `headers` are names in lower case."""

    topics: tuple[str, ...]
    fields: tuple[Steps, ...] = ()
    keys: bool = False
    headers: frozenset[str] = frozenset()
    replacement: str = DEFAULT_REPLACEMENT


def parse_masks(data: Any, refuse: Refuse) -> tuple[Mask, ...]:
    """Return the rules of the field `mask` of a configuration file. Raises the error that `refuse` creates from a
    reason.
    """
    if not isinstance(data, list):
        raise refuse("mask must be a list of tables, [[mask]]")
    if len(data) > MASKS_MAX:
        raise refuse(f"there are {len(data):,} tables [[mask]]: {MASKS_MAX} are allowed")
    return tuple(_mask(Table(each, f"mask[{index}]", refuse, _KNOWN)) for index, each in enumerate(data))


def _mask(table: Table) -> Mask:
    if "topics" not in table:
        raise table.missing("topics")
    try:
        fields = tuple(parse_field(each) for each in table.texts("fields", ()))
    except ValueError as error:
        raise table.refuse(f"{table.where}.fields: {error}") from None
    keys = table.flag("keys")
    headers = frozenset(name.casefold() for name in table.texts("headers", ()))
    if not fields and not keys and not headers:
        raise table.refuse(f"{table.where} hides nothing: give fields, keys or headers")
    return Mask(table.patterns("topics"), fields, keys, headers, table.text("with", DEFAULT_REPLACEMENT))


class _Rules:
    """All rules of one topic, compiled."""

    def __init__(self, masks: Sequence[Mask]) -> None:
        # Pairs, so that each field keeps the replacement of its rule.
        self.fields = [(steps, mask.replacement) for mask in masks for steps in mask.fields]
        self.key = next((mask.replacement for mask in masks if mask.keys), None)
        self.headers = {name: mask.replacement for mask in reversed(masks) for name in mask.headers}
        self.start: States = self._closed((index, 0) for index in range(len(self.fields)))

    def _closed(self, states: Iterable[tuple[int, int]]) -> States:
        """Add the states behind `**`, which may stand for no name."""
        found = set(states)
        for path, at in list(found):
            steps = self.fields[path][0]
            while at < len(steps) and steps[at] == _DEEP:
                at += 1
                found.add((path, at))
        return frozenset(found)

    def after(self, states: States, name: str) -> States:
        """Return the states of the member `name` of a value with `states`."""
        folded = _folded(name)
        found = set()
        for path, at in states:
            steps = self.fields[path][0]
            if at == len(steps):
                continue
            if steps[at] == _DEEP:
                found.add((path, at))
            elif steps[at] in (_ANY, folded):
                found.add((path, at + 1))
        return self._closed(found)

    def replacement(self, states: States) -> str | None:
        """Return the replacement of a value with these states; None: it is shown."""
        for path, at in sorted(states):
            steps, replacement = self.fields[path]
            if at == len(steps):
                return replacement
        return None


class Masking:
    """The masking rules of a dashboard. Without rules, every user sees everything."""

    def __init__(self, masks: Sequence[Mask] = ()) -> None:
        self._masks = tuple(masks)
        # The rules by topic, for requested topics. The table is bounded because the number of names is not.
        self._rules = lru_cache(maxsize=_TOPICS_CACHED_MAX)(self._rules_of)

    def _rules_of(self, topic: str) -> _Rules | None:
        masks = [mask for mask in self._masks if matches(mask.topics, topic)]
        return _Rules(masks) if masks else None

    def hides(self, scope: Scope, topic: str) -> bool:
        """Return whether something of the topic's records is hidden from the scope."""
        return not scope.unmasked and bool(self._masks) and self._rules(topic) is not None

    def record(self, scope: Scope, topic: str, record: Record) -> Record:
        """Return the record as the scope may see it: the same one if nothing of its topic is hidden."""
        if not self.hides(scope, topic):
            return record
        rules = self._rules(topic)
        assert rules is not None
        key, value = record.key, record.value
        if key is not None and rules.key is not None:
            key = _hidden(rules.key, key)
        if value is not None and rules.fields:
            value = _masked_value(rules, value)
        headers = [
            (name, content if content is None or shown is None else shown.encode())
            for name, content in record.headers
            for shown in (rules.headers.get(name.casefold()),)
        ]
        return Record(record.offset, record.timestamp, key, value, headers)

    def may_search(self, scope: Scope, topic: str, wanted: RecordFilter | None = None) -> str:
        """Return an empty text if the scope may search the topic with the filter, else the reason.

        Without a filter, return whether the topic can be searched with any filter. A search for hidden content would
        reveal it letter by letter, so it is refused, even if only some of the searched records have such content.
        """
        if not self.hides(scope, topic):
            return ""
        rules = self._rules(topic)
        assert rules is not None
        if wanted is None:
            return f"parts of the records of {topic} are hidden from you, so that they cannot be searched"
        if wanted.key and rules.key is not None:
            return f"keys of {topic} are hidden from you, so that they cannot be searched"
        if wanted.value and rules.fields:
            return f"parts of the values of {topic} are hidden from you: search a field by its JSON path instead"
        header = wanted.header.partition("=")[0].strip()
        if wanted.header and header.casefold() in rules.headers:
            return f"header {header} of {topic} is hidden from you, so that it cannot be searched"
        if wanted.path and rules.fields and _reaches_hidden(rules, wanted.path):
            return f"{wanted.path!r} may contain a field of {topic} that is hidden from you"
        return ""

    def may_copy(self, scope: Scope, topic: str) -> str:
        """Return an empty text if the scope may copy or redrive records of the topic, else the reason for the denial.

        The copy would be readable under another name, which the rules may not cover.
        """
        if not self.hides(scope, topic):
            return ""
        return f"parts of the records of {topic} are hidden from you, so that they cannot be copied to another topic"


def _reaches_hidden(rules: _Rules, path: str) -> bool:
    try:
        steps, operator, value = parse_path(path)
    except ValueError:
        # The filter itself reports the error.
        return False
    states = rules.start
    for step in steps:
        if rules.replacement(states) is not None:
            return True
        if isinstance(step, str):
            states = rules.after(states, step)
    if rules.replacement(states) is not None:
        return True
    # A text, list or object may contain hidden fields below the path. Comparing a number or a plain text reveals
    # nothing about them; searching in the whole, or comparing with JSON, does.
    may_contain = any(at < len(rules.fields[index][0]) for index, at in states)
    is_json = not isinstance(value, int | float | str | None) or (
        isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"')
    )
    return may_contain and (operator == "~" or is_json)


def _hidden(replacement: str, data: bytes) -> bytes:
    return f"{replacement} ({plural(len(data), 'byte')} hidden)".encode()


def _masked_value(rules: _Rules, data: bytes) -> bytes:
    whole = rules.replacement(rules.start)
    if whole is not None:
        return _hidden(whole, data)
    try:
        # A lone surrogate becomes its JSON escape again.
        return _masked_text(rules, _parsed(data), rules.start, 0).encode(errors="backslashreplace")
    except (_Unreadable, RecursionError):
        return _hidden(rules.fields[0][1], data)


def _parsed(data: bytes | str) -> Any:
    """Return the JSON value. Raises _Unreadable if it is not JSON, or too large."""
    if len(data) > JSON_BYTES_MAX:
        raise _Unreadable
    try:
        text = data if isinstance(data, str) else data.decode()
        return json.loads(
            text, parse_int=_Number, parse_float=_Number, parse_constant=_Number, object_pairs_hook=_Members
        )
    except (ValueError, RecursionError):
        raise _Unreadable from None


class _Members(list[tuple[str, Any]]):
    """The members of an object, in their order; a name may occur twice, and both are shown or hidden."""


def _masked_text(rules: _Rules, value: Any, states: States, nested: int) -> str:
    """Return the JSON text of a top-level value. Raises _Unreadable if it is neither an object nor a list of them."""
    if isinstance(value, list) and not isinstance(value, _Members):
        return "[" + ", ".join(_masked_text(rules, each, states, nested) for each in value) + "]"
    if not isinstance(value, _Members):
        raise _Unreadable
    return _text(rules, value, states, nested)


def _text(rules: _Rules, value: Any, states: States, nested: int) -> str:
    if isinstance(value, _Members):
        members = []
        for name, each in value:
            below = rules.after(states, name)
            replacement = rules.replacement(below)
            shown = _text(rules, each, below, nested) if replacement is None else json.dumps(replacement)
            members.append(f"{json.dumps(name, ensure_ascii=False)}: {shown}")
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(rules, each, states, nested) for each in value) + "]"
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str) and states and value.lstrip()[:1] in ("{", "["):
        value = _nested_text(rules, value, states, nested)
    return json.dumps(value, ensure_ascii=False)


def _nested_text(rules: _Rules, text: str, states: States, nested: int) -> str:
    """Return a text that is JSON itself with its fields masked, and any other text as it is."""
    try:
        value = _parsed(text)
    except _Unreadable:
        return text
    if nested >= _NESTED_MAX:
        return rules.fields[0][1]
    return _text(rules, value, states, nested + 1)
