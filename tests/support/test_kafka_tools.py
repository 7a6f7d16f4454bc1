"""Kafka's tools behave the same in the shared JVM of the tests as in separate JVMs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from broker_cy.launch.processes import ProcessError
from tests.support import needs
from tests.support.kafka_tools import run_program, run_tool

pytestmark = needs.kafka
STORAGE = "kafka.tools.StorageTool"


def program(directory: Path, name: str, body: str) -> Path:
    source = directory / f"{name}.java"
    source.write_text(
        f"public class {name} {{ public static void main(String[] words) throws Exception {{\n{body}\n}} }}\n"
    )
    return source


def test_exit_codes_and_outputs() -> None:
    """If this fails, a test counts a tool's failure as a success."""
    done = run_tool(STORAGE, "random-uuid")
    assert (done.returncode, len(done.stdout.strip()), done.stderr) == (0, 22, b"")
    refused = run_tool(STORAGE, "nothing", check=False)
    assert refused.returncode == 1
    assert b"'nothing'" in refused.stderr
    with pytest.raises(ProcessError, match=r"exit code 1\n(.|\n)*'nothing'"):
        run_tool(STORAGE, "nothing")
    with pytest.raises(ProcessError, match=r"cannot run nothing\.Here"):
        run_tool("nothing.Here")


def test_what_follows_an_exit_does_not_count(tmp_path: Path) -> None:
    """If this fails, a tool that catches its thread's end reports another exit code than in a separate JVM."""
    body = """
        org.apache.kafka.common.utils.Exit.addShutdownHook("hook", () -> System.err.println("hook"));
        System.out.print(new String(System.in.readAllBytes()).toUpperCase());
        try { org.apache.kafka.common.utils.Exit.exit(3); }
        catch (Throwable end) { System.out.println("after"); org.apache.kafka.common.utils.Exit.exit(4); }
    """
    with pytest.raises(ProcessError, match=r"exit code 3\nstdout: ABC\nstderr: hook\n$"):
        run_program(program(tmp_path, "EndsTwice", textwrap.dedent(body)), stdin=b"abc")


def test_an_exception_is_reported_as_by_a_jvm(tmp_path: Path) -> None:
    """If this fails, a tool that fails with an exception passes."""
    source = program(tmp_path, "Throws", 'if (words.length == 1) throw new IllegalStateException("x" + words[0]);')
    with pytest.raises(ProcessError, match=r'exit code 1\n(.|\n)*Exception in thread "main" .*IllegalState.*: xy'):
        run_program(source, "y")


def test_a_tool_that_hangs_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    """If this fails, one tool that hangs fails all tests after it."""
    with pytest.raises(ProcessError, match=r"Hangs: still running after 0\.5 s"):
        run_program(program(tmp_path, "Hangs", "Thread.sleep(1_000_000);"), timeout_s=0.5)
    assert run_tool(STORAGE, "random-uuid").returncode == 0
