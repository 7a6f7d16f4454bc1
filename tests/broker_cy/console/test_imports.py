"""The console core works if no user interface is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import broker_cy.console

PROGRAM = """
import importlib, pkgutil, sys

BLOCKED = {"click", "rich", "textual", "dash", "plotly", "admin_tui"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import broker_cy.console
names = [each.name for each in pkgutil.walk_packages(broker_cy.console.__path__, "broker_cy.console.")]
for name in names:
    importlib.import_module(name)
print(*names)
"""


def test_every_module_imports_without_a_user_interface() -> None:
    """If this fails, the web dashboard requires Textual, or fails to start on a machine that has only its own
    libraries.
    """
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    files = Path(broker_cy.console.__file__).parent.rglob("*.py")
    assert len(done.stdout.split()) == len(list(files)) - 1


def test_a_blocked_module_is_noticed() -> None:
    """If this fails, the test above passes because it blocks nothing."""
    program = PROGRAM.replace("import broker_cy.console\n", "import broker_cy.console\nimport click\n", 1)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "click is blocked" in done.stderr
