"""The study of the longest turns for groups that read very many topics."""

from __future__ import annotations

from bench.studies import group_turns

TOPICS = 1_500


def test_each_act_has_a_longest_turn() -> None:
    """If this fails, the study of turns ends with an error, or leaves an act out."""
    found = group_turns.turns(TOPICS, 1)
    assert tuple(found) == group_turns.FIGURES
    for figure, longest_ms in found.items():
        assert isinstance(longest_ms, list), figure
        assert len(longest_ms) == 1, figure
        assert longest_ms[0] > 0, figure
