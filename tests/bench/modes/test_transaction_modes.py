"""The figures of transactions by the tool itself: each workload for a short time, on our broker and on Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import cli
from bench.measuring.hdr import decode
from bench.window import engine
from tests.bench.short_runs import labels, measure
from tests.support import needs

TIME = """\
[time]
warm_up = "100 ms"
steady = "0 s"
duration = "400 ms"
"""
TRANSACTIONS = "[transactions]\nrecords = 20\n"
CONSUMING = '[producers]\ncount = 0\n[consumers]\ncount = 2\nisolation = "read_{}"\n[transactions]\naborted = 0.25\n'
WORKLOADS = {
    "transactions": TRANSACTIONS,
    "in-turn": TRANSACTIONS + "ids = 3\n",
    "new-ids": '[transactions]\nmeasure = "new-ids"\n',
    "known-ids": '[transactions]\nmeasure = "known-ids"\nids = 20\n',
    "idempotent": "[producers]\nidempotent = true\n",
    "plain": "",
    "committed": CONSUMING.format("committed"),
    "uncommitted": CONSUMING.format("uncommitted"),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engine, "FILL_TRANSACTIONS_BYTES", 500_000)
    for name, text in WORKLOADS.items():
        (tmp_path / f"{name}.toml").write_text(text + TIME)
    return tmp_path


def compare(files: Path, names: list[str], *targets: str) -> dict[str, Any]:
    """Run all these workloads in turn; returns the document."""
    more = [part for name in names[:-1] for part in ("-w", str(files / f"{name}.toml"))]
    return measure(files, "compare", names[-1], *targets, "--pairs", "1", *more)


def check_figures(run: dict[str, Any]) -> None:
    """Return the metrics that a reader looks for in each kind of run."""
    figures = run["figures"]
    if run["label"] in ("transactions", "in-turn"):
        assert figures["records_per_s"] == pytest.approx(20 * figures["transactions_per_s"])
        assert {"p50_ms", "commit_p50_ms", "cpu_s_per_k_transactions", "retries_per_transaction"} <= figures.keys()
        assert run["commit"]["count"] == run["latency"]["count"] > 0
        assert decode(run["commit"]["hdr"]).get_total_count() == run["commit"]["count"]
        assert figures["commit_p50_ms"] < figures["p50_ms"]
    elif run["label"] in ("new-ids", "known-ids"):
        assert figures["starts_per_s"] > 0
        assert {"p50_ms", "cpu_us_per_request"} <= figures.keys()
        assert "records_per_s" not in figures
    else:
        assert figures["records_per_s"] > 0


def test_every_workload_of_transactions_on_one_target(files: Path) -> None:
    """A B ... B A on one target: the first workload is compared with each of the others."""
    names = list(WORKLOADS)
    document = compare(files, names, "ours")
    assert labels(document) == names
    for run in document["runs"]:
        check_figures(run)
    ratios = {(pair["metric"], pair["a"], pair["b"], pair["label"]): pair["median"] for pair in document["pairs"]}
    by_label = {run["label"]: run["figures"] for run in document["runs"]}
    wanted = by_label["transactions"]["records_per_s"] / by_label["plain"]["records_per_s"]
    assert ratios["records_per_s", "transactions", "plain", "ours"] == pytest.approx(wanted)
    assert ("transactions_per_s", "transactions", "in-turn", "ours") in ratios
    assert document["workload"]["settings"]["idempotent"]["idempotent"] is True
    assert document["workload"]["name"] == ", ".join(names)


@pytest.mark.full
@needs.kafka
def test_every_workload_of_transactions_beside_apache_kafka(files: Path) -> None:
    """Kafka answers the same requests and is checked in the same way, so that the same work is compared."""
    names = ["transactions", "new-ids", "idempotent", "committed"]
    document = compare(files, names, "ours", "kafka")
    assert labels(document) == names * 2
    for run in document["runs"]:
        check_figures(run)
    pairs = {(pair["metric"], pair["a"], pair["b"], pair["label"]) for pair in document["pairs"]}
    assert ("transactions_per_s", "ours", "kafka", "transactions") in pairs
    assert ("starts_per_s", "ours", "kafka", "new-ids") in pairs
    assert ("mb_per_s", "transactions", "committed", "kafka") in pairs


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (
            ["matrix", "-t", "ours", "-w", "{}/transactions.toml"],
            "matrix does not support transactions (allowed: run, compare)",
        ),
        (
            ["matrix", "-t", "ours", "-w", "{}/idempotent.toml"],
            "acks or depths of matrix are not for idempotent producers",
        ),
        (["compare", "ours", "-w", "{}/plain.toml", "-w", "{}/plain.toml"], "name each workload once"),
        (["compare", "ours", "-w", "{}/plain.toml"], "nothing to compare"),
        (["run", "-t", "floor", "-w", "{}/transactions.toml"], "floor supports neither producer ids nor transactions"),
        (["run", "-t", "floor", "-w", "{}/committed.toml"], "floor supports neither producer ids nor transactions"),
    ],
)
def test_what_has_no_transactions_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reported: str
) -> None:
    """A mode that would measure something else under this name is refused."""
    argv = [each.format(files) for each in arguments]
    # The floor is refused by its driver.
    code = 1 if "floor" in arguments else 2
    assert cli.main([*argv, "--dir", str(files / "data")]) == code
    assert reported in capsys.readouterr().err
