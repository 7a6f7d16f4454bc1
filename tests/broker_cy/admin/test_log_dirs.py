"""The words of a broker's `log.dirs` for its directories."""

from __future__ import annotations

import pytest

from broker_cy.admin.log_dirs import entry_of


@pytest.mark.parametrize(
    ("entries", "paths"),
    [
        (["/a", "/b"], ["/a", "/b"]),
        (["/a/", "/x/../b"], ["/a", "/b"]),
        (["data", "more"], ["/srv/data", "/srv/more"]),
        # Kafka does not shorten them.
        (["./data", "../more"], ["/srv/x/./data", "/srv/x/../more"]),
        (["../data", "../../more"], ["/srv/data", "/more"]),
        (["/a", "data"], ["/a", "/srv/data"]),
        # The path of one ends as that of the other.
        (["a", "b/a"], ["/r/b/a", "/r/b/b/a"]),
        (["b/a", "a"], ["/b/a", "/a"]),
        (["data"], ["/data"]),
    ],
)
def test_each_directory_has_the_word_that_names_it(entries: list[str], paths: list[str]) -> None:
    """If this fails, a cordon is refused because the broker knows its directory by another name, or hits another."""
    assert [entry_of(path, paths, entries) for path in paths] == entries


def test_a_directory_without_a_certain_word_keeps_its_path() -> None:
    """If this fails, another directory than that of the user is cordoned."""
    assert entry_of("/c", ["/a", "/b"], ["/a", "/b"]) == "/c"
    assert entry_of("/a", ["/a", "/b"], ["/b", "/a"]) == "/a"
    assert entry_of("/r/a", ["/r/a", "/r/b"], ["b", "a"]) == "/r/a"
    assert entry_of("/a", ["/a", "/b"], ["data", "more"]) == "/a"
    assert entry_of("/a", ["/a"], []) == "/a"
