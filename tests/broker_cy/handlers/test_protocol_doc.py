"""docs/protocol.md lists the served APIs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_protocol_page_is_in_step() -> None:
    """If this fails, a reader plans on an API or version that is not supported."""
    done = subprocess.run(
        [sys.executable, "tools/protocol_doc.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
