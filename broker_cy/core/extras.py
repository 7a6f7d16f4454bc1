"""Commands whose libraries belong to an extra of the distribution, and the message if the extra is not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

# Packages of this distribution.
_OWN: Final = (
    "broker_cy",
    "broker_mirror",
    "broker_registry",
    "broker_sql",
    "broker_streams",
    "bench",
    "admin_tui",
    "dashboard",
    "loadgen",
    "spark_analytics",
)
# As for an option that is wrong (client.program).
EXIT_MISSING: Final = 2


def run(
    program: str,
    extra: str,
    modules: Iterable[str],
    start: Callable[[], int],
    *,
    others: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Return the result of `start`, or EXIT_MISSING after a message if a library of the extra is not installed.

    `modules` are libraries of the extra, without which `program` cannot run. They are searched for, not imported,
    because this runs at the start of the program. A library that is missed later, such as one that they need, has the
    same message; `others` names the extra of libraries that belong to another one. Defects of this distribution, such
    as a module of its own that is missing, remain exceptions.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if not missing:
        try:
            return start()
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if not library or library in sys.stdlib_module_names or library in _OWN:
                raise
            missing, extra = [library], others.get(library, extra)
    print(
        f"{program} needs the extra {extra}: pip install 'broker-cy[{extra}]', or make build in a checkout "
        f"(missing: {', '.join(missing)})",
        file=sys.stderr,
    )
    return EXIT_MISSING
