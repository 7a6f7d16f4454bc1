"""The installed toolkit works outside of the repository, without its tests."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bench

PACKAGE = Path(bench.__file__).parent


def test_it_imports_nothing_of_the_tests() -> None:
    """If this fails, `broker-bench` in a fresh environment ends with ModuleNotFoundError before it measures
    anything.
    """
    found = {
        f"{path.relative_to(PACKAGE)}: {module}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for module in modules(node)
        if module.partition(".")[0] in ("tests", "tools", "demo")
    }
    assert not found


def modules(node: ast.AST) -> list[str]:
    """Return the modules that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


@pytest.mark.full
def test_the_installed_command_measures(tmp_path: Path) -> None:
    """If this fails, the README's own command fails in a fresh checkout: outside of the checkout, the package `tests`
    does not exist.
    """
    command = Path(sys.executable).parent / "broker-bench"
    argv: list[str | Path] = [
        command,
        "compare",
        "ours",
        "floor",
        "-w",
        "produce-1kb",
        "--pairs",
        "1",
        "--steady",
        "0 s",
    ]
    argv += ["--duration", "0.2 s", "--warm-up", "0.1 s", "--dir", tmp_path / "data"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ratios" in done.stdout
