"""Differences between two states of a panel, so that a viewer receives only what changed.

The state of a panel is a JSON object. Three forms have patches; all others are sent whole:

table   {"rows": [{"id": text, "cells": [...]}, ...], ...}    patch {"rows": {row number: row},
                                                                     "cells": {row number: {column number: cell}}, ...}
facts   {"facts": [[name, value, tone], ...], ...}            patch {"facts": {number: fact}, ...}
chart   {"t": [ms, ...], "v": [[value, ...], ...], ...}       patch {"drop": n, "t": [...], "v": [[...], ...], ...}

`...` are other members: a patch has those that are new or changed, as they are now. A patch of a table replaces rows,
and then cells of the other rows; a patch of a chart removes `drop` points at the beginning, and then adds points at the
end. The browser applies patches in assets/live.js.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

State = dict[str, Any]


def patch_of(old: State, new: State) -> State | None:
    """Return the patch from `old` to `new`; None if `new` should be sent whole."""
    if not old.keys() <= new.keys():
        return None
    if "rows" in old:
        return _table(old, new)
    if "facts" in old:
        return _facts(old, new)
    if "t" in old:
        return _chart(old, new)
    return None


def _others(old: State, new: State, known: Collection[str]) -> State:
    """Return the other members that are new or changed."""
    return {name: value for name, value in new.items() if name not in known and (name not in old or old[name] != value)}


def _table(old: State, new: State) -> State | None:
    before, after = old["rows"], new["rows"]
    if len(before) != len(after):
        return None
    rows: dict[int, Any] = {}
    cells: dict[int, dict[int, Any]] = {}
    changed = total = 0
    for number, (was, row) in enumerate(zip(before, after, strict=True)):
        width = len(row["cells"])
        total += width
        if was == row:
            continue
        if {**was, "cells": row["cells"]} == row and len(was["cells"]) == width:
            cells[number] = {
                column: cell
                for column, (then, cell) in enumerate(zip(was["cells"], row["cells"], strict=True))
                if then != cell
            }
            changed += len(cells[number])
        else:
            rows[number] = row
            changed += width
    # More than half has changed: a whole state is hardly longer, and tabs that skipped a frame can use it, too.
    if changed * 2 > total:
        return None
    return {**_others(old, new, ("rows",)), "rows": rows, "cells": cells}


def _facts(old: State, new: State) -> State | None:
    before, after = old["facts"], new["facts"]
    changed = {number: fact for number, (was, fact) in enumerate(zip(before, after, strict=False)) if was != fact}
    if len(before) != len(after) or len(changed) * 2 > len(after):
        return None
    return {**_others(old, new, ("facts",)), "facts": changed}


def _chart(old: State, new: State) -> State | None:
    before, after = old["t"], new["t"]
    if not before or not after or len(old["v"]) != len(new["v"]):
        return None
    try:
        drop = before.index(after[0])
    except ValueError:
        return None
    kept = len(before) - drop
    if before[drop:] != after[:kept]:
        return None
    if any(was[drop:] != now[:kept] for was, now in zip(old["v"], new["v"], strict=True)):
        return None
    added = {"drop": drop, "t": after[kept:], "v": [values[kept:] for values in new["v"]]}
    return {**_others(old, new, ("t", "v")), **added}
