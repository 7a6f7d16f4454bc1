"""The directory that a log has left by a move, until its files are removed."""

from __future__ import annotations

import errno
import os

import pytest

from broker_cy.storage.errors import StorageError
from broker_cy.storage.moves import log_moves
from broker_cy.storage.moves.move import State
from tests.broker_cy.storage.managing import TOPIC_ID
from tests.broker_cy.storage.moves.two_disks import KEY, SMALL, STEPS_MAX, Disks

pytestmark = pytest.mark.usefixtures("small_steps")


def test_log_does_not_return_to_what_it_left(disks: Disks) -> None:
    """If this fails, the old log becomes the log: a replica moved to another disk and back, and the process
    ended before the old directory was removed. All records since the first move are lost then.
    """
    disks.append(6)
    disks.start()
    disks.jobs.keeps = True
    disks.finish()
    disks.append(6)
    (back,) = (each for each in disks.manager.data_directories if each.path == disks.here)
    disks.manager.moves.start(KEY, disks.log, back)
    for _ in range(STEPS_MAX):
        disks.step()
    assert disks.move is not None
    assert disks.move.state is State.COPYING
    disks.reopen()
    assert disks.records() == b"".join(disks.appended)


def test_log_returns_once_the_old_directory_has_gone(disks: Disks) -> None:
    """If this fails, a replica that has moved can never move back."""
    disks.append(6)
    disks.start()
    disks.jobs.keeps = True
    disks.finish()
    disks.append(6)
    (back,) = (each for each in disks.manager.data_directories if each.path == disks.here)
    disks.manager.moves.start(KEY, disks.log, back)
    disks.step()
    disks.jobs.keeps = False
    while disks.jobs.kept:
        disks.jobs.kept.pop(0)()
    disks.here = disks.other
    disks.finish()
    disks.reopen()
    assert disks.records() == b"".join(disks.appended)


def test_no_log_is_created_where_an_old_one_still_is(disks: Disks) -> None:
    """If this fails, a new topic loses its records: the directory of its log is taken for that of a deleted one."""
    disks.append(6)
    disks.start()
    disks.jobs.keeps = True
    disks.finish()
    disks.manager.delete(*KEY)
    ids = {each.path: each.directory_id for each in disks.manager.data_directories}
    with pytest.raises(StorageError, match="still there"):
        disks.manager.create(*KEY, TOPIC_ID, SMALL, 0, ids[disks.here])
    disks.manager.create(*KEY, TOPIC_ID, SMALL, 0)
    assert os.path.dirname(disks.log.directory) == disks.other
    disks.append(2)
    while disks.jobs.kept:
        disks.jobs.kept.pop(0)()
    assert os.path.exists(f"{disks.log.directory}/{0:020d}.log")
    assert disks.manager._log_moves.leaving == set()


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC])
def test_old_directory_that_cannot_be_renamed(disks: Disks, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """If this fails, an old directory stays until the next start, or the replica can never move back."""
    disks.append(6)
    disks.start()
    disks.jobs.keeps = True
    disks.finish()
    disks.jobs.kept.pop(0)()

    def refused(*_: object) -> str:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(log_moves, "rename_away", refused)
        disks.jobs.kept.pop(0)()
    assert disks.manager._log_moves.leaving == {f"{disks.here}/t-0"}
    disks.jobs.run_due()
    disks.jobs.kept.pop(0)()
    assert disks.manager._log_moves.leaving == set()
    assert not os.path.exists(f"{disks.here}/t-0")
