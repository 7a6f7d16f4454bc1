"""Profiles: perf's output is parsed correctly, and a perf that cannot be used is reported before anything is
measured.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.measuring import perf
from bench.measuring.perf import PerfError, parse, readable, short
from tests.support import needs

HEAD = """# Total Lost Samples: {lost}
#
# Samples: {samples}  of event 'cpu-clock:ppp'
# Event count (approx.): 677354704
#
#       Period\t     Samples\tShared Object       \tSymbol
"""
# Rows as perf 6.12 prints them.
PYTHON = """ 24048096   \t 12         \t[kernel.kallsyms]   \t[k] do_task_stat
 12024048   \t 6          \t[kernel.kallsyms]   \t[k] do_syscall_64
 12024048   \t 6          \tlibcrypto.so.3      \t[.] 0x000000000029c34c
 12024048   \t 6          \tlibcrypto.so.3      \t[.] 0x000000000029c3a6
 12024048   \t 6          \twalk.cpython-311-x86_64-linux-gnu.so\t[.] __pyx_f_9broker_cy_4wire_4walk_walk_records

#
# (Tip: Treat branches as callchains: perf report --branch-history)
"""
JAVA = """ 60   \t 30   \t[JIT] tid 4711   \t[.] 0x00007f1b3c0a1b2c
 20   \t 10   \t//anon   \t[.] 0x00007f1b3c0a1b2d
 20   \t 10   \tlibjvm.so   \t[.] G1ParScanThreadState::copy
"""


@pytest.fixture
def usable_perf() -> None:
    try:
        perf.require()
    except PerfError as error:
        pytest.skip(f"perf cannot be used here: {error}")


def test_a_report_of_perf_is_read() -> None:
    """If this fails, shares of the wrong functions direct optimization to the wrong place."""
    counted = parse(HEAD.format(lost=0, samples=36) + PYTHON)
    assert (counted.event, counted.samples, counted.notes) == ("cpu-clock", 36, ())
    assert list(counted.functions) == [
        ("kernel", "do_task_stat"),
        ("libcrypto.so.3", "functions without names"),
        ("kernel", "do_syscall_64"),
        ("walk", "wire.walk.walk_records"),
    ]
    assert list(counted.functions.values()) == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6])
    assert counted.modules() == pytest.approx({"kernel": 0.5, "libcrypto.so.3": 1 / 3, "walk": 1 / 6})


def test_what_the_jvm_compiled_is_one_row() -> None:
    """If this fails, a thousand addresses of a hundredth of a percent each hide three quarters of a broker's time."""
    counted = parse(HEAD.format(lost=3, samples=50) + JAVA)
    assert counted.functions == {
        ("JVM", "JVM compiled code"): 0.8,
        ("libjvm.so", "G1ParScanThreadState::copy"): 0.2,
    }
    assert counted.notes == ("3 samples were lost",)


def test_hidden_names_of_the_kernel_are_reported() -> None:
    """If this fails, rows of addresses look like a result."""
    counted = parse(HEAD.format(lost=0, samples=1) + " 5   \t 1   \t[unknown]   \t[k] 0xffffffff9a0c1234\n")
    assert counted.functions == {perf.HIDDEN: 1.0}
    assert "kptr_restrict" in counted.notes[0]


@pytest.mark.parametrize("rows", ["", " x\t1\tlibc\t[.] f\n", " 1\t1\tlibc\n"])
def test_what_is_no_report_is_refused(rows: str) -> None:
    """If this fails, an empty profile, or one of half a line, is shown."""
    with pytest.raises(PerfError, match=r"no sample|an unknown line"):
        parse(HEAD.format(lost=0, samples=0) + rows)


def test_names_are_those_of_the_source() -> None:
    """Readers do not search for a mangled name."""
    assert readable("__pyx_f_9broker_cy_7storage_3log_3Log_flush_staged") == "storage.log.Log.flush_staged"
    assert readable("_PyEval_EvalFrameDefault") == "_PyEval_EvalFrameDefault"
    assert short("/usr/lib/segment.cpython-311-x86_64-linux-gnu.so") == "segment"
    assert short("libc.so.6") == "libc.so.6"


def test_the_heaviest_come_first_and_the_rest_is_summed() -> None:
    """Rows left out of a table still count in the total."""
    reported, rest = perf.top([(("m", "a"), 0.1), (("m", "b"), 0.6), (("m", "c"), 0.3)], 2)
    assert reported == [(("m", "b"), 0.6), (("m", "c"), 0.3)]
    assert rest == pytest.approx(0.1)


def test_without_perf_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If this fails, minutes of measuring end with an error, or with a report that silently lacks the requested
    profile.
    """
    from bench import cli

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PerfError, match="perf cannot be run"):
        perf.require()
    assert cli.main(["run", "-w", "produce-1kb", "-t", "ours", "--profile", "--dir", str(tmp_path / "data")]) == 1
    assert not (tmp_path / "data").exists()


def test_a_target_of_another_host_has_no_profile(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a process id of this host that belongs to another program is recorded instead."""
    from bench import cli

    assert cli.main(["run", "-w", "produce-1kb", "-t", "127.0.0.1:9", "--profile"]) == 2
    assert "no process on this host" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.usefixtures("usable_perf")
def test_only_what_is_observed_is_counted(tmp_path: Path) -> None:
    """If this fails, starts and warm-ups are included in the shares."""
    command = [sys.executable, "-u", "-c", "import hashlib\nprint(1)\nwhile 1: hashlib.sha256(b'x' * 99999)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        recording = perf.Recording(tmp_path)
        try:
            with recording.observed(process.pid):
                use_cpu(process.pid)
            recording.close()
        finally:
            process.kill()
    counted = recording.counted()
    assert counted.samples > 0
    assert sum(counted.functions.values()) == pytest.approx(1)


def use_cpu(pid: int) -> None:
    """Wait until the process has used a fifth of a second of CPU: a condition of the machine, not of the clock."""
    from bench.measuring import proc

    begun = proc.usage(pid).cpu_s
    while proc.usage(pid).cpu_s - begun < 0.2:
        pass


@pytest.mark.full
@needs.chromium
@pytest.mark.usefixtures("usable_perf")
def test_a_profile_is_in_document_page_and_picture(tmp_path: Path) -> None:
    """`--profile` on our broker, from the command line to the picture of its part of the page."""
    from bench import cli
    from bench.report import result
    from tools.report_picture import picture

    out, page, png = tmp_path / "r.json", tmp_path / "r.html", tmp_path / "r.png"
    common = ["--duration", "0.5 s", "--warm-up", "0.1 s", "--steady", "0 s", "--dir", str(tmp_path)]
    assert cli.main(["run", "-w", "produce-1kb", "-t", "ours", "--profile", *common,
                     "--json-file", str(out), "--html", str(page)]) == 0  # fmt: skip
    (profile,) = result.read(out).profiles
    assert profile.target == "ours"
    assert sum(row.share for row in profile.functions) + profile.rest == pytest.approx(1)
    assert any(row.module == "kernel" for row in profile.modules)
    picture(page, png, sections=["Where the time goes"])
    assert png.read_bytes().startswith(b"\x89PNG")
