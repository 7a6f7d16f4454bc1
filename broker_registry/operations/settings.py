"""Changes of the settings and modes of subjects, contexts and the registry (subject None)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from broker_registry.compatibility import LEVELS
from broker_registry.errors import Code, RegistryError, not_permitted, subject_not_found
from broker_registry.operations.delete import tombstones
from broker_registry.operations.plan import SETTINGS, Plan, Record
from broker_registry.rules import RuleSet
from broker_registry.schema_types.base import Policy
from broker_registry.store.keys import Key, KeyType
from broker_registry.store.state import State
from broker_registry.store.values import Config, Mode, encode_config, encode_mode, encode_subject_clearing
from broker_registry.subject_names import SubjectName, is_default_context

_INVALID_LEVEL: Final = (
    "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
    "forward_transitive, and full_transitive"
)
_INVALID_MODE: Final = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."
_WRITES: Final = frozenset({SETTINGS})


def checked_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return members of Config that a request sets (None: unset). Raises RegistryError for an invalid value."""
    found = dict(changes)
    level = found.get("compatibility_level")
    if level is not None:
        if str(level).upper() not in LEVELS:
            raise RegistryError(Code.INVALID_COMPATIBILITY_LEVEL, _INVALID_LEVEL)
        found["compatibility_level"] = str(level).upper()
    policy = found.get("compatibility_policy")
    if policy is not None:
        if str(policy).upper() not in Policy.__members__:
            text = f"Invalid compatibility policy {policy}. Valid values are {', '.join(Policy.__members__)}"
            raise RegistryError(Code.INVALID_COMPATIBILITY_LEVEL, text)
        found["compatibility_policy"] = str(policy).upper()
    for name in ("default_rule_set", "override_rule_set"):
        rules = found.get(name)
        if isinstance(rules, RuleSet) and (problem := rules.problem()):
            raise RegistryError(Code.INVALID_RULE_SET, problem)
    return found


def update_config(state: State, subject: str | None, changes: Mapping[str, Any]) -> Plan[Config]:
    """Change some settings; returns all that the subject then has."""
    _check_writable(state, subject)
    config = replace(state.configs.get(subject) or Config(), **changes)
    key = Key(KeyType.CONFIG, subject)
    return Plan(config, [(key.encode(), encode_config(subject, config))], writes=_WRITES, reads=frozenset())


def delete_config(state: State, subject: str | None) -> Plan[Config]:
    """Remove the settings of a subject; returns them."""
    config = state.config(subject)
    if config is None:
        raise subject_not_found(subject or "")
    _check_writable(state, subject)
    return Plan(config, [(Key(KeyType.CONFIG, subject).encode(), None)], writes=_WRITES, reads=frozenset())


def _check_writable(state: State, subject: str | None) -> None:
    if state.mode_in_scope(subject).is_read_only:
        context = "" if subject is None else SubjectName.parse(subject).prefix
        name = "null" if subject is None else subject
        raise not_permitted(f"Subject {name} in context {context} is in read-only mode")


def parse_mode(text: str | None, subject: str | None) -> Mode | None:
    """Return the mode of a request. Raises RegistryError."""
    if text is None:
        return None
    try:
        mode = Mode(text.upper())
    except ValueError:
        raise RegistryError(Code.INVALID_MODE, _INVALID_MODE) from None
    is_global = subject is not None and SubjectName.parse(subject).is_global_context
    if mode is Mode.FORWARD and not is_global:
        raise RegistryError(Code.INVALID_MODE, "Forward mode only supported on global level")
    return mode


def set_mode(state: State, subject: str | None, mode: Mode | None, *, is_forced: bool) -> Plan[None]:
    """Set the mode of a subject; None removes it. IMPORT needs a place without versions, unless it is forced; deleted
    versions are removed for good, so that imported ids cannot meet theirs.
    """
    if not state.defaults.allows_mode_changes:
        raise not_permitted("Mode changes are not allowed")
    records: list[Record] = []
    if mode is Mode.IMPORT and state.mode_in_scope(subject) is not Mode.IMPORT and not is_forced:
        if state.has_subjects(subject, with_deleted=False):
            raise not_permitted("Cannot import since found existing subjects")
        records = tombstones(state, subject)
        records.append((Key(KeyType.CLEAR_SUBJECT, subject).encode(), encode_subject_clearing(subject)))
    key = Key(KeyType.MODE, subject)
    records.append((key.encode(), None if mode is None else encode_mode(subject, mode)))
    return Plan(None, records, writes=_WRITES, reads=frozenset(), is_exclusive=True)


def delete_mode(state: State, subject: str | None, *, is_recursive: bool) -> Plan[Mode | None]:
    """Remove the mode of a subject, and with `is_recursive` those of the subjects in the context that it names;
    returns the mode that it had.
    """
    mode = state.mode(subject)
    if mode is None and not is_recursive:
        raise subject_not_found(subject or "")
    if not state.defaults.allows_mode_changes:
        raise not_permitted("Mode changes are not allowed")
    names: list[str | None] = [subject]
    if is_recursive and (subject is None or SubjectName.parse(subject).is_context):
        inside = SubjectName.parse(subject or "")
        names += [
            name
            for name in state.modes
            if name is not None and not is_default_context(name) and SubjectName.parse(name).context == inside.context
        ]
    records: list[Record] = [(Key(KeyType.MODE, name).encode(), None) for name in dict.fromkeys(names)]
    return Plan(mode, records, writes=_WRITES, reads=frozenset(), is_exclusive=True)
