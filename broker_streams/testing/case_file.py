"""Files of tests: inputs of an application, and the answers that are expected.

    tests:
      - name: orders of a minute are counted
        steps:
          - {topic: orders, key: ann, value: {item: tea}, at: 1000}
          - {advance: 10s}
        expect:
          orders-per-minute:
            - {key: ann, value: 1, at: 1000}
        stores:
          orders-count:
            - {key: ann, window: [0, 60000], value: 1}

A file is YAML with the types of JSON: `yes`, `12:30` and `2026-01-31` are texts. Errors name the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml

from broker_streams.plan.durations import milliseconds
from broker_streams.testing.case_values import Shown, headers_of, window_of

_OF_FILE: Final = ("tests", "settings", "topics")
_OF_TEST: Final = ("name", "settings", "topics", "clock", "steps", "expect", "stores", "error")
_OF_RECORD: Final = ("topic", "key", "window", "value", "at", "headers")
_OF_ROW: Final = ("key", "window", "value", "at", "headers")
_TYPES: Final = (
    ("null", r"null|~|", ("n", "~", "")),
    ("bool", r"true|false", ("t", "f")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
)


class CaseError(ValueError):
    """A file of tests that cannot be used; the text names the place, the value and what is allowed."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # yaml has no types
    """Quotes what any reader of YAML could take for something else than text."""


for _name, _pattern, _first in _TYPES:
    for _each in (_Loader, _Dumper):
        _each.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), list(_first))


@dataclass(frozen=True)
class Step:
    """A record for a topic, or an advance of the clock."""

    line: int
    topic: str = ""
    record: Shown = field(default_factory=dict)
    advance_ms: int | None = None


@dataclass(frozen=True)
class Case:
    """One test. `topics`: serdes by topic, as {key: .., value: ..}. `expect` and `stores` None: not compared.

    A store of None is compared with nothing: `--update` fills it.
    """

    name: str
    line: int
    settings: Mapping[str, Any]
    topics: Mapping[str, Mapping[str, str]]
    clock_ms: int
    steps: tuple[Step, ...]
    expect: Mapping[str, list[Shown]] | None
    stores: Mapping[str, list[Shown]] | None
    error: str | None
    # Where the test's own keys begin and end in the text, and their column; for `updated`.
    spans: Mapping[str, tuple[int, int]]
    column: int
    end: int


class CaseFile:
    """A file that was read. Raises CaseError, which names the file, the line, the value and what is allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CaseError(f"{path} cannot be read: {error}") from None
        loader = _Loader(self.text)
        try:
            root = loader.get_single_node()
            self._load = loader
            self.cases = tuple(self._read(root))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
            problem = getattr(error, "problem", None) or str(error)
            raise CaseError(f"{place}: {problem}") from None
        finally:
            loader.dispose()

    def _error(self, node: Any, text: str) -> CaseError:
        line = f":{node.start_mark.line + 1}" if node is not None else ""
        return CaseError(f"{self.path}{line}: {text}")

    def _value(self, node: Any) -> Any:
        return self._load.construct_document(node)

    def _pairs(self, node: Any, allowed: Iterable[str], what: str) -> dict[str, tuple[Any, Any]]:
        """Nodes of keys and values."""
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what}: a mapping with {', '.join(allowed) or 'names'} is expected")
        found: dict[str, tuple[Any, Any]] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in found:
                raise self._error(key, f"{name} is given twice")
            if allowed and name not in allowed:
                raise self._error(key, f"{name} is not allowed in {what}; allowed are {', '.join(allowed)}")
            found[name] = key, value
        return found

    def _items(self, node: Any, what: str) -> list[Any]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, f"{what}: a list is expected")
        return list(node.value)

    def _read(self, root: Any) -> Iterator[Case]:
        if root is None:
            raise self._error(None, "the file is empty; it has `tests`, a list")
        parts = self._pairs(root, _OF_FILE, "a file of tests")
        if "tests" not in parts:
            raise self._error(root, "`tests` is missing: a list")
        settings = self._mapping(parts, "settings")
        topics = self._topics(parts)
        names: set[str] = set()
        tests = self._items(parts["tests"][1], "tests")
        if not tests:
            raise self._error(root, "`tests` is empty")
        for node in tests:
            case = self._case(node, settings, topics)
            if case.name in names:
                raise self._error(node, f"a test with the name {case.name!r} exists")
            names.add(case.name)
            yield case

    def _case(self, node: Any, settings: Mapping[str, Any], topics: Mapping[str, Mapping[str, str]]) -> Case:
        parts = self._pairs(node, _OF_TEST, "a test")
        name = self._value(parts["name"][1]) if "name" in parts else None
        if not isinstance(name, str) or not name:
            raise self._error(node, "a test needs a name")
        steps = tuple(self._step(each) for each in self._items(parts["steps"][1], "steps")) if "steps" in parts else ()
        error = self._value(parts["error"][1]) if "error" in parts else None
        if error is not None and not isinstance(error, str):
            raise self._error(parts["error"][0], "error is a part of the expected message")
        clock_ms = self._ms(parts["clock"][1], "clock") if "clock" in parts else 0
        return Case(
            name,
            node.start_mark.line + 1,
            {**settings, **self._mapping(parts, "settings")},
            {**topics, **self._topics(parts)},
            clock_ms,
            steps,
            self._rows(parts, "expect"),
            self._rows(parts, "stores"),
            error,
            {name: (key.start_mark.index, value.end_mark.index) for name, (key, value) in parts.items()},
            node.start_mark.column,
            node.end_mark.index,
        )

    def _mapping(self, parts: Mapping[str, tuple[Any, Any]], name: str) -> dict[str, Any]:
        if name not in parts:
            return {}
        return {key: self._value(value) for key, (_, value) in self._pairs(parts[name][1], (), name).items()}

    def _topics(self, parts: Mapping[str, tuple[Any, Any]]) -> dict[str, dict[str, str]]:
        if "topics" not in parts:
            return {}
        named = self._pairs(parts["topics"][1], (), "topics")
        return {
            topic: {part: self._value(each) for part, (_, each) in self._pairs(node, ("key", "value"), topic).items()}
            for topic, (_, node) in named.items()
        }

    def _step(self, node: Any) -> Step:
        line = node.start_mark.line + 1
        parts = self._pairs(node, (*_OF_RECORD, "advance"), "a step")
        if "advance" in parts:
            if len(parts) > 1:
                raise self._error(node, "a step is either a record or an advance of the clock")
            return Step(line, advance_ms=self._ms(parts["advance"][1], "advance"))
        if "topic" not in parts:
            raise self._error(node, "a step needs a topic, or `advance`")
        topic = self._value(parts.pop("topic")[1])
        if not isinstance(topic, str):
            raise self._error(node, f"the topic is {topic!r}; a text is expected")
        return Step(line, topic, self._record(parts))

    def _record(self, parts: Mapping[str, tuple[Any, Any]]) -> Shown:
        """A record or row, with all of its fields checked."""
        found: Shown = {"key": None, "value": None}
        for name, (_, node) in parts.items():
            try:
                if name == "at":
                    found[name] = self._ms(node, "at")
                    continue
                found[name] = self._value(node)
                if name == "headers":
                    headers_of(found[name])
                elif name == "window":
                    window_of(found[name])
            except CaseError:
                raise
            except ValueError as error:
                raise self._error(node, str(error)) from None
        return {name: found[name] for name in _OF_ROW if name in found}

    def _rows(self, parts: Mapping[str, tuple[Any, Any]], name: str) -> dict[str, list[Shown]] | None:
        if name not in parts:
            return None
        node = parts[name][1]
        if isinstance(node, yaml.ScalarNode) and self._value(node) is None:
            return {}
        found = {}
        for place, (_, rows) in self._pairs(node, (), name).items():
            items = self._items(rows, place)
            found[place] = [self._record(self._pairs(each, _OF_ROW, f"a record of {place}")) for each in items]
        return found

    def _ms(self, node: Any, what: str) -> int:
        try:
            found = milliseconds(self._value(node), what)
        except (ValueError, TypeError) as error:
            raise self._error(node, str(error)) from None
        if found < 0 and what != "at":
            raise self._error(node, f"{what} is {found} ms; at least 0 is allowed")
        return found

    def updated(self, answers: Mapping[str, tuple[Mapping[str, list[Shown]], Mapping[str, list[Shown]] | None]]) -> str:
        """The text with the answers by test as (expect, stores) in place of the expected ones. All else stays, also
        comments; stores None leaves them out.
        """
        changes: list[tuple[int, int, str]] = []
        for case in self.cases:
            if case.name not in answers:
                continue
            topics, stores = answers[case.name]
            for name, rows in (("expect", topics), ("stores", stores)):
                if rows is None:
                    continue
                block = _block(name, rows, case.column)
                if name in case.spans:
                    begin, end = case.spans[name]
                    changes.append((begin, self._trimmed(begin, end), block))
                else:
                    end = self._trimmed(0, case.end)
                    changes.append((end, end, f"\n{' ' * case.column}{block}"))
        text = self.text
        for begin, end, block in sorted(changes, key=lambda each: each[0], reverse=True):
            text = text[:begin] + block + text[end:]
        return text

    def _trimmed(self, begin: int, end: int) -> int:
        """The end of a block without the blank lines and comments behind it."""
        lines = self.text[begin:end].split("\n")
        while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            lines.pop()
        return begin + len("\n".join(lines).rstrip())


def line_of(shown: Shown) -> str:
    """A record or row in one line of YAML."""
    text: str = yaml.dump(
        shown, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return text.strip()


def _block(name: str, rows: Mapping[str, list[Shown]], column: int) -> str:
    if not rows:
        return f"{name}: {{}}"
    inner, lines = " " * (column + 2), [f"{name}:"]
    for place, theirs in rows.items():
        key = yaml.dump(place, Dumper=_Dumper, default_style=None, width=float("inf")).split("\n")[0]
        lines.append(f"{inner}{key}:{'' if theirs else ' []'}")
        lines += [f"{inner}  - {line_of(each)}" for each in theirs]
    return "\n".join(lines)
