"""Metadata and rule sets of schemas: the registry stores and merges them, clients execute the rules.

Objects are immutable. `to_json` gives the members in the order of Confluent's objects without empty ones, which the
records of `_schemas` and the answers share. `hashed` gives the bytes that they add to the MD5 of a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_registry.json_types import InvalidObject, as_choice, as_flag, as_object, as_text, as_texts

VERSION_PROPERTY: Final = "confluent:version"
RESERVED_PROPERTY: Final = "confluent:reserved"
NAME_LENGTH_MAX: Final = 256
"""Characters of the name of a rule."""
_MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_OTHER_MODES: Final = ("WRITE", "READ", "WRITEREAD")
_MODES_WITH_TWO_ACTIONS: Final = ("WRITEREAD", "UPDOWN")
_KINDS: Final = ("TRANSFORM", "CONDITION")
# The kind and mode of a rule that does not name them.
_DEFAULT_KIND: Final = "TRANSFORM"
_DEFAULT_MODE: Final = "WRITEREAD"
_ENVIRONMENTS: Final = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")


@dataclass(frozen=True, slots=True)
class Metadata:
    """Tags by paths of fields, properties, and the names of sensitive properties; all sorted."""

    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    sensitive: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object, name: str = "metadata") -> Metadata | None:
        if value is None:
            return None
        found = as_object(value, name)
        tags = as_object(found.get("tags"), f"{name}.tags")
        properties = as_object(found.get("properties"), f"{name}.properties")
        return cls(
            tuple(sorted((path, as_texts(each, f"{name}.tags")) for path, each in tags.items())),
            tuple(sorted((key, as_text(each, f"{name}.properties") or "") for key, each in properties.items())),
            as_texts(found.get("sensitive"), f"{name}.sensitive"),
        )

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.tags:
            found["tags"] = {path: list(tags) for path, tags in self.tags}
        if self.properties:
            found["properties"] = dict(self.properties)
        if self.sensitive:
            found["sensitive"] = list(self.sensitive)
        return found

    def hashed(self) -> Iterator[bytes]:
        for path, tags in self.tags:
            yield path.encode()
            yield from (tag.encode() for tag in tags)
        for key, value in self.properties:
            yield key.encode()
            yield value.encode()
        yield from (name.encode() for name in self.sensitive)

    def value_of(self, name: str) -> str | None:
        return dict(self.properties).get(name)

    @property
    def reserved_fields(self) -> tuple[str, ...]:
        """Names of top-level fields that later versions must not use."""
        names = (self.value_of(RESERVED_PROPERTY) or "").split(",")
        return tuple(sorted({name.strip() for name in names} - {""}))

    def with_property(self, name: str, value: str | None) -> Metadata:
        """Return these metadata with a property; without it if `value` is None."""
        properties = {**dict(self.properties), name: value}
        kept = tuple(sorted((key, each) for key, each in properties.items() if each is not None))
        return Metadata(self.tags, kept, self.sensitive)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `tags` and `params` are sorted. Empty texts are as good as absent: records do not have them."""

    name: str | None
    doc: str | None
    kind: str
    mode: str
    type: str | None
    tags: tuple[str, ...]
    params: tuple[tuple[str, str], ...]
    expr: str | None
    on_success: str | None
    on_failure: str | None
    disabled: bool

    @classmethod
    def parse(cls, value: object, name: str) -> Rule:
        found = as_object(value, name)
        params = as_object(found.get("params"), f"{name}.params")
        return cls(
            as_text(found.get("name"), f"{name}.name"),
            as_text(found.get("doc"), f"{name}.doc") or None,
            as_choice(found.get("kind"), f"{name}.kind", _KINDS) or _DEFAULT_KIND,
            as_choice(found.get("mode"), f"{name}.mode", _MIGRATION_MODES + _OTHER_MODES) or _DEFAULT_MODE,
            as_text(found.get("type"), f"{name}.type") or None,
            as_texts(found.get("tags"), f"{name}.tags"),
            tuple(sorted((key, as_text(each, f"{name}.params") or "") for key, each in params.items())),
            as_text(found.get("expr"), f"{name}.expr") or None,
            as_text(found.get("onSuccess"), f"{name}.onSuccess") or None,
            as_text(found.get("onFailure"), f"{name}.onFailure") or None,
            as_flag(found.get("disabled"), f"{name}.disabled") or False,
        )

    def to_json(self) -> dict[str, Any]:
        members = {
            "name": self.name,
            "doc": self.doc,
            "kind": self.kind,
            "mode": self.mode,
            "type": self.type,
            "tags": list(self.tags),
            "params": dict(self.params),
            "expr": self.expr,
            "onSuccess": self.on_success,
            "onFailure": self.on_failure,
        }
        return {**{key: value for key, value in members.items() if value}, "disabled": self.disabled}

    def hashed(self) -> Iterator[bytes]:
        for text in (self.name, self.doc, self.kind, self.mode, self.type, *self.tags):
            if text is not None:
                yield text.encode()
        for key, value in self.params:
            yield key.encode()
            yield value.encode()
        for text in (self.expr, self.on_success, self.on_failure):
            if text is not None:
                yield text.encode()
        if self.disabled:
            yield b"\x01"

    def problem(self, modes: Sequence[str], modes_text: str) -> str:
        """Return why a rule set may not have this rule; empty if it may."""
        if not self.name:
            return "Missing rule name" if self.name is None else "Empty rule name"
        if len(self.name) > NAME_LENGTH_MAX:
            return "Rule name too long"
        if not (self.name[0].isalpha() or self.name[0] == "_"):
            return f"Illegal initial character in rule name: {self.name}"
        if not all(each.isalnum() or each in "_-" for each in self.name):
            return f"Illegal character in rule name: {self.name}"
        if self.type is None:
            return "Missing rule type"
        has_two = any("," in action for action in (self.on_success, self.on_failure) if action is not None)
        if self.mode not in _MODES_WITH_TWO_ACTIONS and has_two:
            return "Multiple actions only valid with WRITEREAD and UPDOWN"
        return "" if self.mode in modes else modes_text


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a schema in their three groups, each in the order of execution."""

    migration: tuple[Rule, ...] = ()
    domain: tuple[Rule, ...] = ()
    encoding: tuple[Rule, ...] = ()
    enable_at: str | None = None

    @classmethod
    def parse(cls, value: object, name: str = "ruleSet") -> RuleSet | None:
        if value is None:
            return None
        found = as_object(value, name)

        def rules(member: str) -> tuple[Rule, ...]:
            items = found.get(member) or []
            if not isinstance(items, list):
                raise InvalidObject(f"{name}.{member} is {items!r}; a list of rules is expected")
            return tuple(Rule.parse(each, f"{name}.{member}") for each in items)

        enable_at = as_choice(found.get("enableAt"), f"{name}.enableAt", _ENVIRONMENTS)
        return cls(rules("migrationRules"), rules("domainRules"), rules("encodingRules"), enable_at)

    def to_json(self) -> dict[str, Any]:
        groups = {"migrationRules": self.migration, "domainRules": self.domain, "encodingRules": self.encoding}
        found: dict[str, Any] = {key: [rule.to_json() for rule in rules] for key, rules in groups.items() if rules}
        if self.enable_at:
            found["enableAt"] = self.enable_at
        return found

    def hashed(self) -> Iterator[bytes]:
        for rule in (*self.migration, *self.domain, *self.encoding):
            yield from rule.hashed()
        if self.enable_at is not None:
            yield self.enable_at.encode()

    def problem(self) -> str:
        """Return why this rule set is invalid; empty if it is valid."""
        names: set[str | None] = set()
        groups = (
            (self.migration, _MIGRATION_MODES, "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"),
            (self.domain, _OTHER_MODES, "Domain rules can only be WRITE, READ, WRITEREAD"),
            (self.encoding, _OTHER_MODES, "Encoding rules can only be WRITE, READ, WRITEREAD"),
        )
        for rules, modes, text in groups:
            for rule in rules:
                if rule.name in names:
                    return f"Found rule with duplicate name '{rule.name}'"
                names.add(rule.name)
                if problem := rule.problem(modes, text):
                    return problem
        return ""

    def has_type(self, kind: str) -> bool:
        return any(rule.type == kind for rule in (*self.migration, *self.domain, *self.encoding))


def merged_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """Return both metadata; members of `new` replace those of the same name."""
    if old is None or new is None:
        return new if old is None else old
    return Metadata(
        tuple(sorted({**dict(old.tags), **dict(new.tags)}.items())),
        tuple(sorted({**dict(old.properties), **dict(new.properties)}.items())),
        tuple(sorted({*old.sensitive, *new.sensitive})),
    )


def merged_rule_sets(old: RuleSet | None, new: RuleSet | None) -> RuleSet | None:
    """Return the rules of both; rules of `new` replace those of the same name in their group."""
    if old is None or new is None:
        return new if old is None else old

    def merged(before: tuple[Rule, ...], after: tuple[Rule, ...]) -> tuple[Rule, ...]:
        names = {rule.name for rule in after}
        return (*(rule for rule in before if rule.name not in names), *after)

    return RuleSet(
        merged(old.migration, new.migration),
        merged(old.domain, new.domain),
        merged(old.encoding, new.encoding),
        new.enable_at or old.enable_at,
    )


def hashed_with_mark(value: Metadata | RuleSet | None) -> Iterable[bytes]:
    """Return the bytes of an optional object; a byte tells an empty one from none."""
    if value is not None:
        yield b"\x01"
        yield from value.hashed()
