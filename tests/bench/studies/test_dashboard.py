"""The measurements of the web dashboard: their parts run, samples match the right frames, and missing programs are
named.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode

from bench.launch import chromium
from bench.launch.dashboard import Dashboard
from bench.record import plan as plans
from bench.studies import dashboard, dashboard_large, dashboard_live
from bench.studies.dashboard_live import Received, Seen, delays, watched
from bench.studies.dashboard_viewers import Frames, masked
from broker_cy.launch.processes import ProcessError
from tests.support import needs


def measured(tmp_path: Path, parts: str, *options: str) -> dict[str, float]:
    """Run some parts with small sizes, and return their figures."""
    path = tmp_path / "figures.json"
    argv = ["--only", parts, "--repeats", "1", "--seconds", "0.2", "--json-file", str(path), *options]
    assert dashboard.main(argv) == 0
    found: dict[str, float] = json.loads(path.read_text())
    return found


def rows_of(measurements: Iterable[str]) -> set[str]:
    """Return the figures that the recorded table shows of these measurements."""
    (table,) = [each for each in plans.load().tables if each.name == "dashboard"]
    return {row.metric for row in table.rows if row.measurement in measurements}


@pytest.mark.full
@needs.chromium
def test_a_dashboard_of_a_small_cluster_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, the recorded table has rows without figures, or a half-hour measurement ends with an exception."""
    monkeypatch.setattr(dashboard, "SETTLE_S", 0.1)
    monkeypatch.setattr(dashboard, "VIEWERS_SETTLE_S", 2.5)
    # Other programs may take the machine meanwhile.
    monkeypatch.setattr(dashboard_live, "LOST_MS", 60_000)
    parts = "start,idle,paint,live,viewers,transfer,heap"
    found = measured(tmp_path, parts, "--samples", "4", "--viewers", "3", "--navigations", "2")
    assert rows_of(["dashboard", "dashboard-2000"]) <= found.keys()
    assert (found["viewers"], found["heap_navigations"]) == (3, 2)
    for figure in ("start_s", "idle_mb", "paint_cold_ms", "number_warm_ms", "live_samples", "live_p50_ms", "heap_mb"):
        assert found[figure] > 0, figure
    # Frames arrive at each viewer about once a second, and the scripts of a page are some hundred kilobytes.
    assert found["viewer_messages_per_s"] > 0
    assert found["viewer_bytes_per_s"] > 0
    assert found["transfer_overview_kb"] > 100
    assert found["page_cold_ms"] >= found["paint_cold_ms"]
    shown = capsys.readouterr().out
    assert "heap_growth_mb" in shown
    assert "reached: 1,000" in shown or "missed: 1,000" in shown


@pytest.mark.full
@needs.chromium
def test_a_dashboard_of_many_topics_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, it is unknown whether large clusters are still usable."""
    monkeypatch.setattr(dashboard_large, "REST_MS", 100)
    monkeypatch.setattr(dashboard_large, "SCROLLS", 4)
    found = measured(tmp_path, "large", "--topics", "130", "--partitions", "150", "--groups", "120")
    assert rows_of(["dashboard-large"]) <= found.keys()
    assert found["large_partitions"] == 150
    for figure in ("large_topics_sort_worst_ms", "large_groups_filter_worst_ms", "large_mb", "large_groups_blocked_ms"):
        assert found[figure] > 0, figure


def test_a_sample_is_matched_with_what_follows_from_it() -> None:
    """If this fails, a figure of the previous sample counts for this one, and a slow dashboard looks fast."""
    received = [
        Received(1_010.0, 1_000, "1 KiB"),
        Received(2_020.0, 2_001, "2 KiB"),
        # No pixel changes: the page does not report it.
        Received(3_010.0, 3_002, "2 KiB"),
        Received(4_010.0, 4_003, "1 KiB"),
        Received(5_010.0, 5_004, "9 KiB"),
    ]
    # The text of the first sample is on the page again, before and after the fourth.
    texts = [(1_080.0, "1 KiB"), (2_100.0, "2 KiB"), (4_203.0, "1 KiB")]
    points = [(2_150.0, 2_000.0), (3_150.0, 3_000.0), (5_300.0, 5_000.0)]
    found = delays(received, texts, points)
    assert found.client_ms == [19.0, 7.0, 6.0]
    assert found.page_ms == [99.0, 200.0]
    # The point of the fourth came with that of the fifth.
    assert found.chart_ms == [149.0, 1_297.0, 296.0]
    assert found.lost == 1


def test_a_busy_page_is_watched_until_it_shows_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the measurement ends without figures on a busy machine, or samples in transit count as lost."""
    monkeypatch.setattr(dashboard_live, "LOST_MS", 60_000)
    clock = [0.0]
    received = [Received(at + 10.0, at, f"{at} B") for at in range(1_000, 90_000, 1_000)]

    def watch(texts: list[tuple[float, str]], points: list[tuple[float, float]]) -> tuple[float, int, list[float]]:
        """Return when the watch from 1.5 s on has ended, and the lost samples and the delays that it has found."""
        clock[0] = 3_500.0

        def look() -> Seen:
            now = clock[0]
            return Seen(
                [each for each in received if each.at_ms <= now],
                [each for each in texts if each[0] <= now],
                [each for each in points if each[0] <= now],
            )

        def wait() -> None:
            clock[0] += 100

        found = watched(look, wait, lambda: clock[0], 1_500.0)
        return clock[0], found.lost, found.page_ms

    soon = [(at + 50.0, f"{at} B") for at in range(1_000, 90_000, 1_000)]
    drawn = [(at + 80.0, float(at)) for at in range(1_000, 90_000, 1_000)]
    assert watch(soon, drawn) == (4_100.0, 0, [50.0])
    # Nothing is shown for 30 s, and then the newest sample.
    late = [(at + 40.0, text) for at, text in soon if at > 30_000]
    assert watch(late, [each for each in drawn if each[0] > 30_000])[2] == [90.0]
    # The page shows nothing at all.
    end_ms, lost, shown = watch([], [])
    assert (end_ms, shown) == (63_500.0, [])
    assert lost > 50


def test_frames_of_a_server_are_split_wherever_a_packet_ends() -> None:
    """If this fails, viewers count bytes of frames as frames, or stop reading."""
    bodies = [b"", b"x" * 125, b"y" * 126, b"z" * 70_000]
    sent = b"".join(Frame(Opcode.TEXT, body).serialize(mask=False) for body in bodies)
    for size in (1, 2, 3, 1_000, len(sent)):
        frames, found = Frames(), []
        for at in range(0, len(sent), size):
            found += frames.feed(sent[at : at + size])
        assert found == [(1, body) for body in bodies], size


@pytest.mark.parametrize("size", [0, 125, 126, 70_000])
def test_frames_of_a_viewer_are_those_of_a_client(size: int) -> None:
    """If this fails, the dashboard closes the connections of the viewers."""
    body = b"a" * size
    sent = masked(1, body)
    head = sent[: len(sent) - 4 - size]
    # A mask of zeros leaves the payload unchanged.
    assert sent == head + bytes(4) + body
    assert head[1] & 0x80
    assert bytes([head[0], head[1] & 0x7F]) + head[2:] + body == Frame(Opcode.TEXT, body).serialize(mask=False)


def test_goals_of_viewers_depend_on_their_number() -> None:
    """If this fails, 2,000 viewers are compared with the goal for 500."""
    assert dashboard.reach_of("viewers_cpu_percent", 500) == 3.0
    assert dashboard.reach_of("viewers_cpu_percent", 501) == 10.0
    assert dashboard.reach_of("idle_mb", 500) == 120.0
    assert dashboard.reach_of("start_s", 500) is None


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--only", "paint,hep"], "--only hep: unknown (allowed: start, idle,"),
        (["--viewers", "0"], "--viewers 0: a number from 1 on is expected"),
        (["--seconds", "0"], "--seconds 0: a number above 0 is expected"),
        (["--topics", "20", "--partitions", "19"], "--partitions 19: at least one for each of 20 topics is expected"),
    ],
)
def test_wrong_options_are_refused(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a mistyped part is left out silently."""
    with pytest.raises(SystemExit) as ended:
        dashboard.main(argv)
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_a_missing_browser_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a missing browser is reported by a traceback."""
    monkeypatch.setattr(chromium, "PROGRAMS", ("no-such-browser",))
    assert dashboard.main(["--only", "transfer"]) == 1
    assert "there is no Chromium (no-such-browser): tools/system_packages.sh installs it" in capsys.readouterr().err


def test_a_dashboard_that_does_not_start_is_reported(tmp_path: Path) -> None:
    """If this fails, a measurement waits for a minute, and does not report why."""
    with pytest.raises(ProcessError, match="No such option"):
        Dashboard(tmp_path, "127.0.0.1:1", ["--no-such-option"]).start()
