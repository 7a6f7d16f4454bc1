"""Commands whose libraries belong to an extra of the distribution, and the message if the extra is not installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec


def hint(program: str, extra: str, modules: Iterable[str]) -> str | None:
    """The message for the user of `program` if one of its `modules`, all of them from the extra `extra`, is not
    installed.

    None if all are. The modules are searched for, not imported, because this runs at the start of the program.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if not missing:
        return None
    return f"{program} needs the extra {extra}: pip install 'broker-cy[{extra}]' (missing: {', '.join(missing)})"
