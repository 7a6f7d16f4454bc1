"""JSON documents: their drafts, and the places that references name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from broker_registry.schema_types.json_schema.model import ABSENT

_DRAFT: Final = re.compile(r"https?://json-schema\.org/(?:(?:draft-0([467])|draft/(2019-09|2020-12))/)?schema#?")
_OLD_ID: Final = "4"
_USUAL: Final = "7"
CONDITIONS: Final = frozenset({"if", "then", "else"})
_CONDITIONS_NOW: Final = frozenset({"if"})


def draft_of(root: Any) -> str:
    """Return the draft that a schema names: 4, 6, 7, 2019-09 or 2020-12; as Confluent's registry, 7 for any other."""
    schema = root.get("$schema") if isinstance(root, dict) else None
    found = _DRAFT.fullmatch(schema) if isinstance(schema, str) else None
    return _USUAL if found is None else found[1] or found[2] or _OLD_ID


class Document:
    """A JSON document with its address."""

    def __init__(self, root: Any, address: str) -> None:
        self.root, self.address = root, address
        draft = draft_of(root)
        self.is_modern = "-" in draft
        # Any of these words makes a condition: in draft 7 each of them, later only `if`, before none.
        self.conditions = CONDITIONS if draft == _USUAL else _CONDITIONS_NOW if self.is_modern else frozenset[str]()
        # It has no constants, and items and dependencies are no booleans.
        self.is_draft_4 = draft == _OLD_ID
        self.id_word = "id" if draft == _OLD_ID else "$id"
        self.anchors: dict[str, Any] = {}


def value_at(root: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901); `$defs` and `definitions` are one place in the root."""
    value = root
    for index, part in enumerate(pointer.split("/")[1:]):
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        elif index == 0 and name == "$defs" and isinstance(value, dict) and "definitions" in value:
            value = value["definitions"]
        elif index == 1 and isinstance(root, dict) and name in _definitions(root):
            value = _definitions(root)[name]
        else:
            return ABSENT
    return value


def _definitions(root: Mapping[str, Any]) -> Mapping[str, Any]:
    found = root.get("definitions")
    return found if isinstance(found, dict) else {}


def value_of_anchor(root: Any, name: str, id_word: str) -> Any:
    """Return the subschema with an anchor, or with `#name` as its id."""
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if each.get("$anchor") == name or each.get(id_word) == f"#{name}":
                return each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return ABSENT
