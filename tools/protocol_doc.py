"""Write docs/protocol.md from the handlers' own registrations: `python tools/protocol_doc.py [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from broker_cy.broker.registry import Registration

PAGE = ROOT / "docs" / "protocol.md"
HEAD = """\
# Protocol

Use this page to look up which Kafka APIs and versions the broker serves, and which ACLs a client needs for them. This
command shows the versions that a running broker advertises:

    broker-cy cluster apis

ApiVersions returns the versions in the column "advertised". As in Kafka, a request for another API or version closes
the connection, and an ApiVersions request of an unknown version is answered in version 0 (KIP-511). The column
"requires" lists the operations that a client must be allowed if an authorizer is configured
([security.md](security.md)).

The table is generated from the registrations of the handlers by `tools/protocol_doc.py`; a test keeps it up to date.

| key | API | versions | advertised | requires | omissions |
|---|---|---|---|---|---|
"""


def advertised(entry: Registration) -> str:
    return f"{entry.advertised_min}-{entry.max_version}" if entry.is_advertised else "not"


def page() -> str:
    """Return the whole document."""
    from broker_cy.handlers import load_handlers

    rows = [
        f"| {int(key)} | {entry.api_key.name.title().replace('_', '')} | {entry.min_version}-{entry.max_version} "
        f"| {advertised(entry)} | {entry.requires} | {entry.omissions} |\n"
        for key, entry in sorted(load_handlers().items())
    ]
    return HEAD + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check whether the page is up to date")
    arguments = parser.parse_args()
    text = page()
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/protocol.md is out of date: run python tools/protocol_doc.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
