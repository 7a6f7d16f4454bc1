"""A summary of a test run: the duration of each folder's tests, the slowest tests, how long each worker was busy, and
skipped tests with their reasons.

It is written to the file that BROKER_CY_TEST_SUMMARY names, by the process that reports (the controller under xdist).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

SLOWEST_MAX = 40


class RunSummary:
    """The plugin."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder_s: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, set[str]] = defaultdict(set)
        self._test_s: defaultdict[str, float] = defaultdict(float)
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._began_s = time.time()
        self._busy_s: defaultdict[str, float] = defaultdict(float)
        self._ended_s: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid)
        self._folder_s[folder] += report.duration
        self._tests[folder].add(report.nodeid)
        self._test_s[report.nodeid] += report.duration
        worker = getattr(report, "worker_id", "one process")
        self._busy_s[worker] += report.duration
        self._ended_s[worker] = report.stop - self._began_s
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            self._skipped[report.nodeid.partition("::")[0], reason] += 1

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(self.text())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"durations per folder and skipped tests: {self._path}")

    def text(self) -> str:
        """Return the summary in Markdown. Durations are those of the tests themselves: workers run in parallel."""
        lines = ["# Test run", "", "| folder | tests | seconds |", "|---|---|---|"]
        for folder, seconds in sorted(self._folder_s.items(), key=lambda each: -each[1]):
            lines.append(f"| {folder} | {len(self._tests[folder])} | {seconds:.1f} |")
        total = sum(map(len, self._tests.values()))
        lines += [f"| all | {total} | {sum(self._folder_s.values()):.1f} |", "", "## Slowest tests", ""]
        lines += ["| test | seconds |", "|---|---|"]
        for test, seconds in sorted(self._test_s.items(), key=lambda each: -each[1])[:SLOWEST_MAX]:
            lines.append(f"| {test.replace('|', chr(92) + '|')} | {seconds:.1f} |")
        lines += ["", "## Workers", "", "| worker | seconds in tests | end of the last one |", "|---|---|---|"]
        for worker, seconds in sorted(self._busy_s.items()):
            lines.append(f"| {worker} | {seconds:.1f} | {self._ended_s[worker]:.1f} |")
        lines += ["", "## Skipped", ""]
        for (file, reason), count in sorted(self._skipped.items()):
            lines.append(f"- {file}: {count} ({reason})")
        if not self._skipped:
            lines.append("None.")
        return "\n".join(lines) + "\n"


def folder_of(nodeid: str) -> str:
    """Return the folder of a test, two levels below tests/ at most: tests/broker_cy/wire."""
    parts = nodeid.partition("::")[0].split("/")
    return "/".join(parts[: min(3, len(parts) - 1)])
