"""Plans between the directories of a broker keep their promises for arbitrary disks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.admin.directory_plan import By, DirectoryMove, balance, drain, loads_after, moves_to_directory
from broker_cy.admin.log_dirs import LogDir, ReplicaOnDisk
from broker_cy.client.errors import ClientError

OFFLINE = "KAFKA_STORAGE_ERROR"
TOLERANCE = 0.05


def disk(path: str, sizes: list[int], free: int | None = 10_000, *, error: str = "", cordoned: bool = False) -> LogDir:
    """A directory with replicas of these sizes, whose names are unique by its path."""
    replicas = tuple(ReplicaOnDisk(path.strip("/"), number, each, 0, False) for number, each in enumerate(sizes))
    total = None if free is None else free + sum(sizes)
    return LogDir(1, path, error, total, free, cordoned, () if error else replicas)


@st.composite
def disks(draw: st.DrawFn) -> list[LogDir]:
    """2 to 5 disks, some of them offline or cordoned, with up to 20 replicas each."""
    known = draw(st.booleans())
    return [
        disk(
            f"/{number}",
            draw(st.lists(st.integers(0, 1000), max_size=20)),
            draw(st.integers(0, 30_000)) if known else None,
            error=OFFLINE if draw(st.integers(0, 9)) == 0 else "",
            cordoned=draw(st.integers(0, 9)) == 0,
        )
        for number in range(draw(st.integers(2, 5)))
    ]


def check(found: list[LogDir], moves: tuple[DirectoryMove, ...]) -> None:
    """Assert the properties of every plan: each move is from where the replica is to a disk that takes it and has room
    for it at that moment, and no replica moves twice.
    """
    by_path = {each.path: each for each in found}
    assert len({move.replica for move in moves}) == len(moves)
    free = {each.path: each.usable_bytes for each in found}
    for move in moves:
        source, target = by_path[move.source], by_path[move.target]
        assert target.accepts
        assert not source.error
        assert source is not target
        key = (move.replica.partition.topic, move.replica.partition.partition)
        (size,) = [each.size_bytes for each in source.replicas if (each.topic, each.partition) == key]
        assert size == move.size_bytes
        room = free[move.target]
        if room is not None:
            assert size <= room
            free[move.target] = room - size


def spread(found: list[LogDir], moves: tuple[DirectoryMove, ...]) -> list[float]:
    """How far each disk that takes replicas is from its share, in bytes."""
    taking = [each for each in found if each.accepts]
    after = loads_after(taking, moves)
    unknown = any(each.usable_bytes is None for each in taking)
    capacities = [1 if unknown else ((each.usable_bytes or 0) + each.size_bytes) or 1 for each in taking]
    whole = sum(load.size_bytes for load in after.values())
    return [
        abs(after[1, each.path].size_bytes - whole * capacity / sum(capacities))
        for each, capacity in zip(taking, capacities, strict=True)
    ]


@given(disks())
@settings(max_examples=60, deadline=None)
def test_a_balance_by_space_never_makes_disks_less_even(found: list[LogDir]) -> None:
    """If this fails, a balance fills the disk that it should relieve, or moves bytes forth and back."""
    moves = balance(found, By.SPACE, TOLERANCE)
    check(found, moves)
    before, after = spread(found, ()), spread(found, moves)
    assert sum(after) <= sum(before) + 1e-6
    # A byte that is moved brings two disks nearer to their shares, or one of them past it.
    assert not moves or sum(before) > sum(after)
    assert moves == balance(found, By.SPACE, TOLERANCE), "the preview is what is carried out"


@given(st.lists(st.lists(st.just(10), max_size=40), min_size=2, max_size=5))
@settings(max_examples=40, deadline=None)
def test_small_replicas_are_balanced_within_the_tolerance(sizes: list[list[int]]) -> None:
    """If this fails, disks stay uneven although there are replicas that would even them out."""
    found = [disk(f"/{number}", each, None) for number, each in enumerate(sizes)]
    moves = balance(found, By.SPACE, TOLERANCE)
    share = sum(each.size_bytes for each in found) / len(found)
    assert max(spread(found, moves)) <= max(TOLERANCE * share, 10)
    surplus = sum(max(0, each.size_bytes - share) for each in found)
    assert sum(move.size_bytes for move in moves) <= surplus + 10 * len(found), "few bytes are moved"


@given(disks())
@settings(max_examples=40, deadline=None)
def test_a_balance_by_count_evens_out_the_numbers(found: list[LogDir]) -> None:
    """If this fails, one disk has many more replicas than the next, without a lack of room."""
    moves = balance(found, By.COUNT)
    check(found, moves)
    after = [load.replicas for load in loads_after([each for each in found if each.accepts], moves).values()]
    if all(each.usable_bytes is None for each in found) and after:
        assert max(after) - min(after) <= 1
        counts = [len(each.replicas) for each in found if each.accepts]
        fewest = sum(max(0, each - sum(counts) // len(counts) - 1) for each in counts)
        assert fewest <= len(moves) <= sum(max(0, each - sum(counts) // len(counts)) for each in counts)


def test_a_larger_disk_gets_more() -> None:
    """If this fails, a disk of 1 TB fills up while its neighbour of 4 TB is empty."""
    found = [disk("/small", [100] * 50, 5_000), disk("/large", [], 40_000)]
    moves = balance(found)
    after = {path: load.size_bytes for (_, path), load in loads_after(found, moves).items()}
    assert after == {"/small": 1_000, "/large": 4_000}
    assert balance([disk("/small", [100] * 10, 9_000), disk("/large", [100] * 40, 36_000)]) == ()


@given(disks(), st.data())
@settings(max_examples=50, deadline=None)
def test_a_drain_empties_its_directory_or_is_refused(found: list[LogDir], data: st.DataObject) -> None:
    """If this fails, a disk is pulled out with replicas on it, or the plan fills up another one."""
    chosen = data.draw(st.sampled_from(found))
    try:
        moves = drain(found, chosen.path)
    except ClientError:
        others = [each for each in found if each.accepts and each is not chosen]
        assert chosen.error or not others or all(each.usable_bytes is not None for each in others)
        return
    check(found, moves)
    assert Counter(move.source for move in moves) == Counter({chosen.path: len(chosen.replicas)} if moves else {})
    assert len(moves) == len(chosen.replicas)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/c", "offline: KAFKA_STORAGE_ERROR"),
        ("/d", "cordoned"),
        ("/e", "no such directory; it has /a, /b, /c, /d"),
        ("/b", "10 B are free"),
    ],
)
def test_a_directory_that_cannot_take_replicas_is_named(path: str, said: str) -> None:
    """If this fails, the broker refuses the moves one by one, or a disk is filled up."""
    found = [
        disk("/a", [30, 40]),
        disk("/b", [], 10),
        disk("/c", [], error=OFFLINE),
        disk("/d", [], cordoned=True),
    ]
    with pytest.raises(ClientError) as caught:
        moves_to_directory(found, path, lambda key: True)
    assert said in str(caught.value)


def test_only_the_replicas_that_are_elsewhere_move() -> None:
    """If this fails, a command that is repeated copies everything again."""
    found = [disk("/a", [30, 40]), disk("/b", [50])]
    (move,) = moves_to_directory(found, "/b", lambda key: key.partition == 0)
    assert (move.source, move.target, move.size_bytes, str(move.replica)) == ("/a", "/b", 30, "a-0 on broker 1")
