"""Result files."""

from __future__ import annotations

import os
from pathlib import Path

from broker_cy.reporting.files import replace_file


def test_a_file_is_replaced_and_a_link_stays(tmp_path: Path) -> None:
    """If this fails, a result is appended to an old one, or a symbolic link is replaced instead of its target."""
    target, link = tmp_path / "results" / "new.json", tmp_path / "latest.json"
    replace_file(target, "a longer first text")
    link.symlink_to(target)
    replace_file(link, "second")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "second"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["latest.json", "results"]


def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    """If this fails, `--json /dev/stdout` prints nothing and, run as root, replaces the device by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in (pipe, link):
            replace_file(path, "result")
            assert os.read(reader, 100) == b"result"
        assert pipe.is_fifo()
        assert link.is_symlink()
    finally:
        os.close(reader)
