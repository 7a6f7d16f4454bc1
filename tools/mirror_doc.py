"""Write docs/mirror-settings.md from broker_mirror/settings.tsv: `python tools/mirror_doc.py [--check]`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_cy.client.security import NAMES  # noqa: E402
from broker_mirror.settings import Scope, Setting, Support, table  # noqa: E402

PAGE = ROOT / "docs" / "mirror-settings.md"
WIDTH = 120
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


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown_default(setting: Setting) -> str:
    if setting.required:
        return "required"
    text = setting.default_text
    return f"`{cell(text)}`" if text else ""


def section(scope: Scope) -> str:
    """Return the settings of a scope with an effect, and the names of the others."""
    rows = [setting for (each, _), setting in table().items() if each is scope]
    found = [f"\n## {TITLES[scope]}\n\n| setting | type | default | meaning |\n|---|---|---|---|\n"]
    for each in rows:
        if each.support is Support.EFFECTIVE:
            meaning = cell(each.documentation or "")
            found.append(f"| `{each.name}` | {each.type.name} | {shown_default(each)} | {meaning} |\n")
    for support, text in ((Support.NO_EFFECT, "Without an effect"), (Support.REFUSED, "Refused")):
        if names := [f"`{each.name}`" for each in rows if each.support is support]:
            listed = ", ".join(sorted(names))
            found.append("\n" + wrapped(f"{text}: {listed}."))
    return "".join(found)


def page() -> str:
    names = ", ".join(f"`{name}`" for name in NAMES)
    connections = (
        "\n## Connections\n\n"
        + wrapped("`bootstrap.servers`, and the settings of security ([security.md](security.md)); others are refused:")
        + "\n"
        + wrapped(f"{names}.")
    )
    return HEAD + "".join(map(section, TITLES)) + connections


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if the page differs")
    is_check = parser.parse_args().check
    if not is_check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") != page():
        print("docs/mirror-settings.md is out of date: run python tools/mirror_doc.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
