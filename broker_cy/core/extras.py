"""Commands whose libraries come with an extra of the distribution: which extra to install where one is missing."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec


def hint(program: str, extra: str, modules: Iterable[str]) -> str | None:
    """What to tell the user of `program` where one of its `modules`, all of the extra `extra`, is not installed.

    None where all are. They are looked for, not imported: this is part of a program's start.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if not missing:
        return None
    return f"{program} needs the extra {extra}: pip install 'broker-cy[{extra}]' (missing: {', '.join(missing)})"
