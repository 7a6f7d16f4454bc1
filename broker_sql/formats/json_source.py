"""Python source that reads and writes objects of JSON with fields in a known order.

A record of a schema has the same fields in the same order as the one before it, and values of the types that are
expected. The source takes them as they are after one test each; all else goes to a function that knows every rule.
"""

from __future__ import annotations

from builtins import compile as to_code
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker_sql import types
from broker_sql.java_format import BIGINT_MAX, BIGINT_MIN, INTEGER_MAX, INTEGER_MIN
from broker_sql.types import SqlType

# Tests of values that are not what their type expects.
_UNEXPECTED: Final[dict[SqlType, str]] = {
    types.BOOLEAN: "{0}.__class__ is not bool",
    types.INTEGER: f"{{0}}.__class__ is not int or not {INTEGER_MIN} <= {{0}} <= {INTEGER_MAX}",
    types.BIGINT: f"{{0}}.__class__ is not int or not {BIGINT_MIN} <= {{0}} <= {BIGINT_MAX}",
    types.TIMESTAMP: f"{{0}}.__class__ is not int or not {BIGINT_MIN} <= {{0}} <= {BIGINT_MAX}",
    types.DOUBLE: "{0}.__class__ is not float",
    types.STRING: "{0}.__class__ is not str",
}


def object_reader(
    fields: Sequence[str | None],
    names: Sequence[str],
    kinds: Sequence[SqlType],
    other: Callable[[int, Any], Any],
    is_struct: bool,
) -> Callable[[dict[str, Any]], Any]:
    """Return the function from an object that has `fields`, one for each name, to a tuple, or to a dict of a struct.

    A field None is a column that the object lacks. `other(index, value)` reads a value that is not as expected."""
    lines = ["def read(given):"]
    values = []
    for index, (field, kind) in enumerate(zip(fields, kinds, strict=True)):
        if field is None:
            values.append("None")
            continue
        name = f"v{index}"
        values.append(name)
        lines.append(f"    {name} = given[{field!r}]")
        lines.append(f"    if {_UNEXPECTED.get(kind, '{0} is not None').format(name)}:")
        lines.append(f"        {name} = other({index}, {name})")
    if is_struct:
        inner = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=True))
        lines.append(f"    return {{{inner}}}")
    else:
        lines.append(f"    return ({', '.join(values)}{',' if values else ''})")
    return _made(lines, "read", {"other": other})


def object_writer(
    names: Sequence[str], encoders: Sequence[Callable[[Any], Any] | None], dumped: Callable[[Any], bytes]
) -> Callable[[Sequence[Any]], bytes]:
    """Return the function from a row, which has a value for each name, to the text of its object."""
    values = [f"v{index}" for index in range(len(names))]
    entries = []
    for index, (name, encode) in enumerate(zip(names, encoders, strict=True)):
        code = f"v{index}" if encode is None else f"None if v{index} is None else e{index}(v{index})"
        entries.append(f"{name!r}: {code}")
    lines = [
        "def write(row):",
        f"    {', '.join(values)}{',' if values else '()'} = row",
        f"    return dumped({{{', '.join(entries)}}})",
    ]
    objects = {f"e{index}": encode for index, encode in enumerate(encoders) if encode is not None}
    return _made(lines, "write", {"dumped": dumped, **objects})


def _made(lines: Sequence[str], name: str, objects: dict[str, Any]) -> Callable[[Any], Any]:
    exec(to_code("\n".join(lines), "<json>", "exec"), objects)
    made: Callable[[Any], Any] = objects[name]
    return made
