"""The script that adds the zone of the pages to typed times, run by Node.js."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import needs

SCRIPT = Path(__file__).resolve().parents[3] / "dashboard" / "assets" / "zone.js"
# The parts of a browser that the script uses as it is loaded.
BROWSER = """
const [script, zone, texts] = process.argv.slice(1);
globalThis.window = { dashboard: { core: { zone: () => zone } }, addEventListener: () => {} };
globalThis.document = { addEventListener: () => {} };
globalThis.MutationObserver = class { observe() {} };
require(script);
console.log(JSON.stringify(JSON.parse(texts).map(window.dashboard.core.withZone)));
"""


def with_zone(zone: str, *texts: str) -> list[str]:
    """Return the texts as a browser in `zone` sends them."""
    command = ["node", "-e", BROWSER, str(SCRIPT), zone, json.dumps(texts)]
    env = {**os.environ, "TZ": zone}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


@needs.node
@pytest.mark.parametrize(
    ("zone", "moment"), [("America/New_York", "2026-03-08T07:00:05.250Z"), ("UTC", "2026-03-08T03:00:05.250Z")]
)
def test_a_typed_time_gets_the_zone(zone: str, moment: str) -> None:
    """If this fails, records are deleted up to another moment than the one that the page shows."""
    assert with_zone(zone, "2026-03-08 03:00:05.250", "@2026-03-08T03:00:05.25", "-15m", "2026-03-08T03:00Z") == [
        moment,
        f"@{moment}",
        "-15m",
        "2026-03-08T03:00Z",
    ]


@needs.node
def test_a_time_that_does_not_exist_gets_no_zone() -> None:
    """If this fails, a time that daylight saving skips becomes another hour without a message. The server refuses times
    without a zone.
    """
    skipped = ["@2026-03-08T02:30", "@2026-03-08T02:00:00", "2026-02-30", "2026-13-01", "2026-01-31T24:00"]
    assert with_zone("America/New_York", *skipped) == skipped
    # Here daylight saving skips an hour at midnight, and there half an hour.
    assert with_zone("America/Santiago", "2026-09-06") == ["2026-09-06"]
    assert with_zone("Australia/Lord_Howe", "2026-10-04T02:15") == ["2026-10-04T02:15"]
    assert with_zone("UTC", "@2026-03-08T02:30") == ["@2026-03-08T02:30:00.000Z"]
