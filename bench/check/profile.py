"""Parser of callgrind's profiles: the instructions of each function.

Format: https://valgrind.org/docs/manual/cl-format.html. Only `positions: line` and `events: Ir` are supported, which is
what the gate requests from callgrind.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

# `fn=(12) name` defines the name 12, `fn=(12)` uses it; files, objects and functions are numbered separately.
NAME = re.compile(r"(c?(?:fn|fl|fi|fe|ob)|cfi|cfl|cob)=(?:\((\d+)\))?(?: ?(.*))?$")
COST = re.compile(r"[+\-*]?\d*(?: (\d+))?$")  # the line, absolute or relative; then the instructions, 0 if left out
UNKNOWN = "???"


class ProfileError(Exception):
    """A file that callgrind did not write, or not with the requested options."""


class Function(NamedTuple):
    """A function, and the file name of the library or program that it is in."""

    name: str
    object: str


class Profile(NamedTuple):
    """Instructions of one window: of all threads, and of each function without its callees."""

    total: int
    functions: Counter[Function]


def parse(lines: Iterable[str]) -> Profile:
    """Parse one dump. Raises ProfileError with the number of a line that cannot be parsed, and if the functions'
    instructions do not add up to the total that the dump states."""
    names: dict[tuple[str, str], str] = {}
    functions: Counter[Function] = Counter()
    object_name, function = UNKNOWN, Function(UNKNOWN, UNKNOWN)
    total: int | None = None
    callee = False  # the next line's cost is the inclusive cost of a call
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if not text or text.startswith("#"):
            continue
        if (cost := COST.match(text)) is not None:
            if not callee:
                functions[function] += int(cost[1] or 0)
            callee = False
        elif (named := NAME.match(text)) is not None:
            kind, key, name = named.groups()
            space = "ob" if kind.endswith("ob") else "fn" if kind.endswith("fn") else "fl"
            if key is None:
                name = name or ""
            elif name:
                names[space, key] = name
            elif (space, key) in names:
                name = names[space, key]
            else:
                raise ProfileError(f"line {number}: {text}: this name was not defined before")
            if kind == "ob":
                object_name = name.rpartition("/")[2]
            elif kind == "fn":
                function = Function(name, object_name)
        elif text.startswith("calls="):
            callee = True
        elif ": " in text or text.endswith(":"):
            key, _, value = text.partition(":")
            if (key, value.strip()) not in {("events", "Ir"), ("positions", "line")} and key in ("events", "positions"):
                raise ProfileError(f"line {number}: {text}: Ir by line is expected")
            if key == "totals":
                total = int(value)
        else:
            raise ProfileError(f"line {number}: {text[:80]}: not a line of a callgrind profile")
    if total is None:
        raise ProfileError("ends without a line of totals")
    if total != functions.total():
        raise ProfileError(f"the sum over the functions is {functions.total()} instructions, but the total is {total}")
    return Profile(total, functions)


def heaviest(profile: Profile, requests: int, limit: int) -> list[tuple[str, str, str, str]]:
    """Return rows (share, instructions per request, function, object) of the `limit` heaviest functions."""
    rows = []
    for function, cost in profile.functions.most_common(limit):
        share = f"{100 * cost / max(profile.total, 1):.1f}%"
        rows.append((share, f"{cost / requests:,.0f}", function.name, function.object))
    return rows
