"""Compares an answer of ours with Kafka's, for people: each difference is a text with the input that caused it.

The order of records is compared for each key of a changelog, and among all other topics. Partitions are not
compared, as the driver has one. Rows of stores are compared without their order; `order` compares it too.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.broker_streams.oracle.spec import Answer, Spec

Produced = Sequence[Any]
"""[topic, partition, key, value, at, headers]"""
KAFKAS_FAULTS: Final = (
    # The optimization of repartition topics does not find the node that changes keys.
    "Found a null keyChangingChild node",
    # A left join with a grace period takes records without a key, and its buffer does not.
    "key cannot be null",
)
"""Beginnings of messages of errors by which Kafka Streams ends while we go on: nothing more is compared."""


def differences(spec: Spec, theirs: Answer, ours: Answer, order: bool = False) -> list[str]:
    """Return what differs; parts that `ours` leaves out, except for the records, are not compared."""
    found: list[str] = []
    if "error" not in ours and str(theirs.get("error", {}).get("cause_message")).startswith(KAFKAS_FAULTS):
        return found
    if (_at(theirs), _at(ours)) != (None, None) and _at(theirs) != _at(ours):
        found.append(f"error\n  theirs {theirs.get('error')}\n  ours   {ours.get('error')}")
        if "build" in (_at(theirs), _at(ours)):
            return found
    if "description" in ours and ours["description"] != theirs.get("description"):
        one, other = (str(each).splitlines() for each in (theirs.get("description"), ours["description"]))
        found.append("\n".join(["description", *difflib.unified_diff(one, other, "theirs", "ours", lineterm="", n=2)]))
    # The records of an input that fails are taken back.
    end = _at(theirs) if isinstance(_at(theirs), int) else len(spec["inputs"])
    found += _of_records(spec["inputs"][:end], theirs.get("records", []), ours.get("records", []))
    if "dropped" in ours and _at(theirs) is None and ours["dropped"] != theirs.get("dropped"):
        found.append(f"dropped records\n  theirs {theirs.get('dropped')}\n  ours   {ours['dropped']}")
    if "stores" in ours and _at(theirs) is None:
        found += _of_stores(theirs.get("stores", {}), ours["stores"], order)
    return found


def _at(answer: Answer) -> Any:
    return answer["error"]["at"] if "error" in answer else None


def _of_records(inputs: Sequence[Any], theirs: Sequence[Any], ours: Sequence[Any]) -> list[str]:
    """The difference of the first input that has one: later ones often follow from it."""
    for number, given in enumerate(inputs):
        their = theirs[number] if number < len(theirs) else []
        our = ours[number] if number < len(ours) else []
        if _by_sequence(their) != _by_sequence(our):
            return [
                f"input {number}: {json.dumps(given, ensure_ascii=False)}"
                + "".join(f"\n  {mark} {shown(each)}" for mark, each in _marked(their, our))
            ]
    return []


def _by_sequence(records: Iterable[Produced]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for topic, _, *rest in records:
        sequence = f"{topic} {rest[0]}" if topic.endswith("-changelog") else ""
        found.setdefault(sequence, []).append([topic, *rest])
    return found


def _marked(theirs: Sequence[Produced], ours: Sequence[Produced]) -> list[tuple[str, Produced]]:
    """Records of both (=), of Kafka only (-), of ours only (+)."""
    rest = [[each[0], *each[2:]] for each in ours]
    found = []
    for each in theirs:
        plain = [each[0], *each[2:]]
        if plain in rest:
            rest.remove(plain)
            found.append(("=", each))
        else:
            found.append(("-", each))
    return [*found, *(("+", [each[0], None, *each[1:]]) for each in rest)]


def shown(record: Produced) -> str:
    """A record in one line."""
    topic, _, key, value, at, headers = record
    return f"{topic}: {_bytes(key)} = {_bytes(value)} @{at}" + (f" {headers}" if headers else "")


def _bytes(of: str | None) -> str:
    if of is None:
        return "null"
    data = bytes.fromhex(of)
    if len(data) == 8 and data[0] in (0, 0xFF):
        return str(int.from_bytes(data, "big", signed=True))
    text = data.decode(errors="replace")
    return repr(text) if text.isprintable() else f"0x{of}"


def _of_stores(theirs: dict[str, Any], ours: dict[str, Any], order: bool) -> list[str]:
    found = []
    if set(theirs) != set(ours):
        found.append(f"names of stores\n  theirs {sorted(theirs)}\n  ours   {sorted(ours)}")
    for name in sorted(set(theirs) & set(ours)):
        their, our = theirs[name], ours[name]
        # The driver cannot read the rows of some stores: of buffers, and of windows without a size.
        if not isinstance(their, list) or not isinstance(our, list):
            continue
        if _sorted(their) != _sorted(our):
            found.append(f"store {name}\n  theirs {json.dumps(their)}\n  ours   {json.dumps(our)}")
        elif order and their != our:
            found.append(f"order of store {name}\n  theirs {json.dumps(their)}\n  ours   {json.dumps(our)}")
    return found


def _sorted(rows: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in rows)
