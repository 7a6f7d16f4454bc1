"""The audit log: complete, bounded, and impossible to forge."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from dashboard.security import Identity, Need, Role, Scope
from dashboard.security import audit as module
from dashboard.security.audit import FIELD_CHARACTERS_MAX, Audit
from dashboard.security.roles import PASSWORD
from tests.dashboard.security.kit import Clock, Dashboard


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(tmp_path, clock=Clock())


def note(audit: Audit, subject: str) -> None:
    audit.note(user="anna", act="topics.delete", subject=subject, result="done")


def subjects(audit: Audit, limit: int = 10_000) -> list[str]:
    return [entry.subject for entry in audit.recent(limit)]


def test_an_entry_is_written_with_all_fields(audit: Audit) -> None:
    """If this fails, the log does not show who did what."""
    fields = {
        "user": "anna",
        "address": "10.0.0.1",
        "cluster": "prod",
        "act": "topics.delete",
        "subject": "orders",
        "command": "broker-cy topics delete orders",
        "result": "done",
    }
    audit.note(**fields)
    (line,) = audit.path.read_text().splitlines()
    assert json.loads(line) == {"time_ms": 1_700_000_000_000, **fields}
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600


def test_entries_are_newest_first_also_after_a_restart(audit: Audit, tmp_path: Path) -> None:
    """If this fails, the audit page shows old entries, or none after a restart."""
    for number in range(5):
        note(audit, str(number))
    assert subjects(audit, 3) == ["4", "3", "2"]
    audit.close()
    again = Audit(tmp_path)
    note(again, "5")
    assert subjects(again) == ["5", "4", "3", "2", "1", "0"]
    assert subjects(again, 0) == subjects(again, -1) == []


@pytest.mark.parametrize("text", ['a\n{"user":"forged"}', "a\r\n", 'a"}', "\u2028", "\x1b[31m", "\ud800", "\x00"])
def test_a_text_cannot_forge_an_entry(audit: Audit, tmp_path: Path, text: str) -> None:
    """If this fails, a user writes entries in the name of another."""
    note(audit, text)
    content = audit.path.read_bytes()
    assert content.count(b"\n") == 1
    assert content.isascii()
    assert content.rstrip(b"\n").decode().isprintable()
    assert subjects(Audit(tmp_path)) == [text]


def test_long_fields_are_cut(audit: Audit) -> None:
    """If this fails, a name of megabytes fills the log."""
    note(audit, "x" * 100_000)
    (subject,) = subjects(audit)
    assert len(subject) == FIELD_CHARACTERS_MAX
    assert subject.endswith("x...")


def test_the_files_are_bounded(audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the log fills the disk, or rotation loses entries."""
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 1_000)
    for number in range(100):
        note(audit, f"{number:03d}")
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3", "audit.log.4"]
    assert all(each.stat().st_size <= 1_000 for each in tmp_path.iterdir())
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in tmp_path.iterdir())
    kept = subjects(Audit(tmp_path))
    assert kept == [f"{number:03d}" for number in range(99, 99 - len(kept), -1)]
    assert len(kept) > 20


def test_memory_is_bounded(audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the dashboard's memory grows with every act."""
    for number in range(module.RECENT_MAX + 10):
        note(audit, str(number))
    assert len(audit.recent(100_000)) == module.RECENT_MAX
    audit.close()
    monkeypatch.setattr(module, "_TAIL_BYTES_MAX", 1_000)
    assert 1 < len(Audit(tmp_path).recent(100_000)) < 10


def test_a_failing_disk_stops_nothing_and_is_shown(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a full disk makes every act fail, or users do not notice the gap in the log."""

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        note(audit, "lost")
    assert audit.lost == 1
    assert "No space left" in audit.problem
    assert subjects(audit) == ["lost"]
    note(audit, "kept")
    assert audit.problem == ""
    assert audit.lost == 1
    assert [json.loads(line)["subject"] for line in audit.path.read_text().splitlines()] == ["kept"]


def test_a_cut_line_does_not_spoil_the_next(audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a full disk or a power loss also makes the next entry unreadable."""
    note(audit, "first")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
        note(audit, "cut")
    note(audit, "next")
    audit.close()
    assert audit.lost == 1
    assert subjects(Audit(tmp_path)) == ["next", "first"]


def test_a_log_that_others_can_read_is_refused(audit: Audit, tmp_path: Path) -> None:
    """If this fails, other users of the machine can read or change the log."""
    audit.path.chmod(0o644)
    with pytest.raises(ClientError, match="chmod 600"):
        Audit(tmp_path)


def test_a_refused_act_is_noted(dashboard: Dashboard) -> None:
    """If this fails, an admin does not see who tried to exceed their role."""
    security = dashboard.security
    eve = Identity("eve", Role.VIEWER, Scope(), PASSWORD, "10.0.0.9")
    reason = security.check(eve, Need(Role.ADMIN, "prod", ("orders",)), act="topics.delete")
    assert "it needs the role admin" in reason
    entry = security.audit.recent()[0]
    assert (entry.user, entry.address, entry.cluster, entry.act) == ("eve", "10.0.0.9", "prod", "topics.delete")
    assert (entry.subject, entry.result) == ("orders", f"refused: {reason}")
    # Also with the right role: this identity has no session.
    assert security.check(eve, Need(Role.VIEWER), act="topics.list") == "there is no session"
    assert security.check(None, Need(Role.VIEWER), act="topics.list")
