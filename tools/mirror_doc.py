"""Write docs/mirror-settings.md from broker_mirror/settings.tsv: `python tools/mirror_doc.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_cy.core.config_def.scoped import Support  # noqa: E402
from broker_mirror.settings import Scope, table  # noqa: E402
from tools.settings_page import OTHERS, connections, main, rows_of, wrapped  # noqa: E402

PAGE = ROOT / "docs" / "mirror-settings.md"
HEAD = """\
# Settings of the mirror

Use this page to check a file of MirrorMaker 2, `mm2.properties`, before the mirror runs it. The mirror reads the file
unchanged:

    clusters = A, B
    A.bootstrap.servers = a1:9092, a2:9092
    B.bootstrap.servers = b1:9092
    A->B.enabled = true
    A->B.topics = orders.*

An unknown, malformed or refused setting is an error that names it. A setting without an effect is a warning that names
it. Values may be variables of config providers, `${NAME:PATH:KEY}` ([migrating.md](migrating.md)). This page is
generated from `broker_mirror/settings.tsv` by `tools/mirror_doc.py`; a test keeps it up to date.

| settings of | given as |
|---|---|
| all flows | `NAME` |
| one flow, which wins | `SOURCE->TARGET.NAME` |
| the worker of a target | `TARGET.NAME` |
| all connections of a cluster | `CLUSTER.NAME`; for all clusters `NAME` |
| the clients of a cluster | `CLUSTER.consumer.NAME`, `CLUSTER.producer.NAME`, `CLUSTER.admin.NAME` |
| the clients of a flow | `SOURCE->TARGET.consumer.NAME`, and for one side `SOURCE->TARGET.source.consumer.NAME` |
| the producer of records of a flow | `SOURCE->TARGET.producer.override.NAME` |

The regular expressions of filters are Java's. Intersections of classes (`&&`) and properties of Unicode are refused.
"""
TITLES = {
    Scope.FILE: "The file",
    Scope.FLOW: "Flows",
    Scope.WORKER: "Workers",
    Scope.CONSUMER: "Consumers",
    Scope.PRODUCER: "Producers",
    Scope.ADMIN: "Admin clients",
}


def section(scope: Scope) -> str:
    """Return the settings of a scope with an effect, and the names of the others."""
    rows = [setting for (each, _), setting in table().items() if each is scope]
    found = [f"\n## {TITLES[scope]}\n", rows_of(each for each in rows if each.support is Support.EFFECTIVE)]
    for support, text in OTHERS:
        if names := [f"`{each.name}`" for each in rows if each.support is support]:
            listed = ", ".join(sorted(names))
            found.append("\n" + wrapped(f"{text}: {listed}."))
    return "".join(found)


def page() -> str:
    return HEAD + "".join(map(section, TITLES)) + connections()


if __name__ == "__main__":
    raise SystemExit(main(PAGE, page, __doc__))
