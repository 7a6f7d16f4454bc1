"""The replica as a state machine: readable and acknowledged records, for all orders of writes, syncs and failures."""

from __future__ import annotations

import errno
import random

import pytest

from broker_cy.replica.replica import PREDECESSORS, Replica, Role

NONE = -1


def leader(end: int = 0, synced_end: int = 0) -> Replica:
    replica = Replica(3)
    replica.become(Role.LEADER, 3)
    replica.open(end, synced_end)
    return replica


def test_without_flush_messages_what_is_written_is_committed() -> None:
    """If this fails, a producer waits for a sync that no setting requires."""
    replica = leader(10, 4)
    assert replica.high["offset"] == 10
    assert replica.wrote(15, 4, 2**62) == {
        "high_watermark": 15, "readable_bytes": 0, "moved": True, "wants_round": False, "wants_alter": False
    }  # fmt: skip
    assert repr(replica) == "Replica(leader of epoch 3, staged 15, written 15, synced 4, high watermark 15)"


def test_what_reaches_flush_messages_waits_for_its_round() -> None:
    """If this fails, records are acknowledged that a power cut takes."""
    replica = leader()
    assert replica.wrote(2, 0, 3)["high_watermark"] == 2
    due = replica.wrote(4, 0, 3)
    assert (due["high_watermark"], due["wants_round"]) == (2, True)
    assert not replica.wrote(5, 0, 3)["wants_round"]
    replica.begin_round()
    # Behind the round, but with fewer than three records: they need none of their own, and do not overtake it.
    assert replica.wrote(7, 0, 3) == {
        "high_watermark": 2, "readable_bytes": 0, "moved": False, "wants_round": False, "wants_alter": False
    }  # fmt: skip
    assert replica.wrote(8, 0, 3)["wants_round"]
    assert repr(replica).endswith("high watermark 2, syncing 2..5, to be synced from 7)")
    assert replica.synced(5)["high_watermark"] == 7
    replica.begin_round()
    assert replica.synced(8)["high_watermark"] == 8


def test_a_failed_write_undoes_what_is_staged() -> None:
    """If this fails, offsets of batches that are not in the log are acknowledged, or given twice."""
    replica = leader()
    replica.wrote(4, 0, 1)
    replica.begin_round()
    assert replica.undo(errno.ENOSPC)["high_watermark"] == 0
    assert (replica.staged["offset"], replica.written["offset"], replica.error) == (4, 4, errno.ENOSPC)
    assert replica.synced(4)["high_watermark"] == 4
    replica.wrote(5, 4, 2**62)
    assert replica.error == 0


def test_after_a_failed_sync_nothing_is_acknowledged() -> None:
    """If this fails, records that the kernel has dropped are acknowledged by the next sync, which succeeds."""
    replica = leader()
    replica.wrote(4, 0, 1)
    replica.begin_round()
    replica.lose(errno.EIO)
    assert replica.synced(4)["high_watermark"] == 0
    assert not replica.wrote(9, 4, 2**62)["moved"]
    assert replica.sync_lost
    # Only a start, which writes the files again, makes the replica usable.
    assert replica.open(9, 9)["high_watermark"] == 9


def test_any_order_of_reports() -> None:
    """If this fails, some order of writes, rounds and failures acknowledges records that are not on disk, or loses a
    wake-up.
    """
    for seed in range(300):
        report_in_any_order(seed)


def report_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    flush_messages = chance.choice([1, 1, 2, 5, 2**62])
    start = chance.randrange(50)
    replica = leader(start, start)
    written, on_disk, round_end, lost = start, start, NONE, False
    due = False
    for _ in range(60):
        before = replica.high["offset"]
        act = chance.choice(["write", "write", "fail", "round", "synced", "flush", "lose"])
        if act == "write" and not lost:
            written += chance.randint(1, 4)
            found = replica.wrote(written, on_disk, flush_messages)
            assert not (due and found["wants_round"]), "added to the next round twice"
            due |= found["wants_round"]
        elif act == "fail":
            replica.undo(errno.ENOSPC)
        elif act == "round" and due and round_end == NONE and not lost:
            replica.begin_round()
            due, round_end = False, written
        elif act == "synced" and round_end != NONE and not lost:
            on_disk, round_end = max(on_disk, round_end), NONE
            replica.synced(on_disk)
        elif act == "flush" and not lost:
            on_disk = chance.randint(on_disk, written)  # the flush of all logs; the next write learns of it
        elif act == "lose" and chance.random() < 0.1:
            lost = True
            replica.lose(errno.EIO)
        high, text = replica.high["offset"], f"seed {seed}: {act}: {replica!r}"
        assert before <= high <= written == replica.written["offset"] == replica.staged["offset"], text
        assert high - on_disk < flush_messages, text
        if lost:
            assert high == before, text
        elif not due and round_end == NONE:
            assert high == written, text


def test_roles_and_epochs() -> None:
    """If this fails, a leader of a past epoch continues, or a deleted partition is served again."""
    for role, before in PREDECESSORS.items():
        for each in Role:
            replica = Replica(3)
            if each is not Role.OFFLINE:
                replica.become(Role.LEADER if each is Role.CLOSED else each, 3)
                replica.become(each, 3)
            if each in before:
                replica.become(role, 4)
                assert (replica.role, replica.leader_epoch) == (role, 4)
            else:
                with pytest.raises(ValueError, match=f"{role.name.lower()} may not follow {each.name.lower()}"):
                    replica.become(role, 4)
    with pytest.raises(ValueError, match="leader epoch 2 is over"):
        Replica(3).become(Role.LEADER, 2)
