"""Patches turn the state before into the state after, as the browser applies them; and they are smaller."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from dashboard.collector.frames import Frame, Health
from dashboard.collector.patches import State, patch_of

CELLS = st.lists(st.sampled_from(["a", "b", "1"]), min_size=2, max_size=2)
TABLES = st.lists(CELLS, max_size=6)
# Members of a patch that are applied to members of the state.
PARTS = ("rows", "cells", "facts", "drop", "t", "v")


def table(rows: list[list[str]]) -> State:
    return {"rows": [{"id": str(number), "cells": cells} for number, cells in enumerate(rows)], "found": len(rows)}


def applied(old: State, sent: State) -> State:
    """Apply a patch as assets/live.js does."""
    patch = orjson.loads(orjson.dumps(sent, option=orjson.OPT_NON_STR_KEYS))
    new = {**old, **{name: value for name, value in patch.items() if name not in PARTS}}
    if "cells" in patch:
        new["rows"] = list(old["rows"])
        for number, row in patch["rows"].items():
            new["rows"][int(number)] = row
        for number, changed in patch["cells"].items():
            row = new["rows"][int(number)]
            cells = [changed.get(str(at), cell) for at, cell in enumerate(row["cells"])]
            new["rows"][int(number)] = {**row, "cells": cells}
    if "facts" in patch:
        new["facts"] = [patch["facts"].get(str(at), fact) for at, fact in enumerate(old["facts"])]
    if "t" in patch:
        drop = patch["drop"]
        new["t"] = old["t"][drop:] + patch["t"]
        new["v"] = [was[drop:] + more for was, more in zip(old["v"], patch["v"], strict=True)]
    return new


@given(TABLES, TABLES, st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_patch_of_a_table_gives_the_new_table(
    before: list[list[str]], after: list[list[str]], moved: list[bool]
) -> None:
    """If this fails, browsers show rows that the cluster does not have."""
    old, new = table(before), table(after)
    for row, is_another in zip(new["rows"], moved, strict=False):
        row["id"] += "x" * is_another
    patch = patch_of(old, new)
    if patch is not None:
        assert applied(old, patch) == new
    else:
        changed = sum(
            len(row["cells"])
            if was["id"] != row["id"]
            else sum(a != b for a, b in zip(was["cells"], row["cells"], strict=True))
            for was, row in zip(old["rows"], new["rows"], strict=False)
        )
        assert len(before) != len(after) or changed * 2 > sum(map(len, after))


@given(st.lists(CELLS, max_size=6), st.lists(CELLS, max_size=6), st.booleans())
def test_a_patch_of_facts_gives_the_new_facts(before: list[list[str]], after: list[list[str]], has_title: bool) -> None:
    """If this fails, a figure is shown next to the name of another."""
    old: State = {"facts": before, "unit": "B"}
    new: State = {"facts": after, "unit": "s", **({"title": "x"} if has_title else {})}
    patch = patch_of(old, new)
    if patch is not None:
        assert applied(old, patch) == new
    else:
        assert len(before) != len(after) or sum(a != b for a, b in zip(before, after, strict=True)) * 2 > len(after)


def test_what_did_not_change_is_not_sent_again() -> None:
    """If this fails, each tab receives the marks and names of a chart again with every new point."""
    marks = [[n, f"topic created t{n}", "PLAIN"] for n in range(50)]
    old = {"t": [1, 2], "v": [[1, 2]], "marks": marks, "unit": "B", "to_ms": 2}
    patch = patch_of(old, {**old, "t": [2, 3], "v": [[2, 3]], "to_ms": 3})
    assert patch == {"drop": 1, "t": [3], "v": [[3]], "to_ms": 3}
    # A patch cannot remove a member.
    assert patch_of({**old, "note": "x"}, old) is None


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 3), st.booleans())
def test_a_patch_of_a_chart_gives_the_new_chart(dropped: int, added: int, lines: int, is_rewritten: bool) -> None:
    """If this fails, a chart has points at wrong times, or spikes that never were."""
    old: dict[str, Any] = {"t": list(range(6)), "v": [[line * 10.0 + at for at in range(6)] for line in range(lines)]}
    times = list(range(dropped, 6 + added))
    new: dict[str, Any] = {"t": times, "v": [[line * 10.0 + at for at in times] for line in range(lines)], "unit": "B"}
    if is_rewritten:
        new["v"][0][0] = -1.0
    patch = patch_of(old, new)
    if is_rewritten:
        assert patch is None
    else:
        assert patch is not None
        assert applied(old, patch) == new
        assert len(patch["t"]) == added


def test_a_chart_without_common_points_is_sent_whole() -> None:
    """If this fails, a browser that was away for long appends to points that are no longer in the chart."""
    assert patch_of({"t": [1, 2], "v": [[1, 2]]}, {"t": [7, 8], "v": [[1, 2]]}) is None
    assert patch_of({"t": [1, 2], "v": [[1, 2]]}, {"t": [1, 2], "v": [[1, 2], [3, 4]]}) is None


def test_a_frame_is_encoded_once_for_all_viewers() -> None:
    """If this fails, the cost of a frame grows with the number of viewers."""
    frame = Frame(
        "k",
        4,
        1_000,
        Health(0),
        table([["a", "b"], ["1", "1"], ["a", "a"]]),
        table([["a", "b"], ["1", "1"], ["b", "a"]]),
    )
    assert frame.whole() is frame.whole()
    assert frame.after(3) is frame.after(3)
    assert "patch" in orjson.loads(frame.after(3))
    # A viewer that missed a frame, or has none, receives the whole frame.
    assert frame.after(2) is frame.after(-2) is frame.whole()
