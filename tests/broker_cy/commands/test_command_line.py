"""The command line: help, errors, the file of clusters, settings, completion and the terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.launch.nodes import free_ports
from broker_cy.commands.app import COMMANDS
from broker_cy.launch.processes import run
from tests.broker_cy.commands.conftest import COMMAND, ROOT, Cli, NewTopic, in_terminal
from tests.support.broker import Target


def leaves() -> Iterator[list[str]]:
    """Yield every command and its subcommands."""
    from click import Context, Group

    from broker_cy.commands.app import group

    for name in COMMANDS:
        command = group.get_command(Context(group), name)
        assert command is not None
        yield [name]
        if isinstance(command, Group):
            yield from ([name, each] for each in command.commands)


@pytest.mark.parametrize("words", list(leaves()), ids=" ".join)
def test_every_command_has_help_with_examples(bare: Cli, words: list[str]) -> None:
    """If this fails, a user who forgot the usage of a command has to search the web."""
    shown = bare(*words, "--help").out
    # On a separate line: otherwise the paragraph was wrapped, and no line of it can be copied.
    assert re.search(r"^ *examples:\n +\S", shown, re.MULTILINE)
    if len(words) == 2 or words[0] in ("lag", "events", "metrics", "producers", "consume", "produce"):
        # `clusters` reads a file, and connects to no cluster; `schemas` connects to a registry.
        assert {"clusters": "--clusters-file", "schemas": "--registry"}.get(words[0], "--bootstrap") in shown
        assert "--json" in shown


def test_starting_a_broker_imports_no_command() -> None:
    """If this fails, the time to the first response grows by imports that only operators' commands need."""
    code = "import sys, atexit; atexit.register(lambda: print('click' in sys.modules, 'rich' in sys.modules)); "
    code += "from broker_cy import cli; cli.main(['start', '--help'])"
    assert run([sys.executable, "-c", code], cwd=ROOT).stdout.splitlines()[-1] == b"False False"


def test_exit_codes_and_errors_for_programs(bare: Cli) -> None:
    """If this fails, a script cannot distinguish an unavailable broker from a missing topic."""
    (port,) = free_ports(1)
    away = bare("topics", "list", "--bootstrap", f"127.0.0.1:{port}", code=3)
    assert away.err.startswith(f"broker-cy: connect, broker 127.0.0.1:{port}: connection refused")
    said = bare("topics", "list", "--bootstrap", f"127.0.0.1:{port}", "--json", code=3)
    assert json.loads(said.err)["error"]["failure"] == "unreachable"
    assert said.out == ""
    assert "HOST:PORT is expected" in bare("topics", "list", "--bootstrap", "host:port", code=2).err
    assert "above 0" in bare("topics", "list", "--timeout", "0", code=2).err
    assert "No such command" in bare("topik", code=2).err
    assert "No such option" in bare("topics", "list", "--jsn", code=2).err
    assert bare("--version").out.startswith("broker-cy ")


def clusters_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "clusters.toml"
    path.write_text(text)
    return path


def test_named_clusters(bare: Cli, broker: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a name selects another cluster, or a read-only cluster is changed."""
    text = f'default = "here"\n[clusters.here]\nbootstrap = "{broker.bootstrap}"\ntimeout_s = 20\n'
    path = clusters_file(tmp_path, text + f'[clusters.look]\nbootstrap = "{broker.bootstrap}"\nreadonly = true\n')
    every: list[list[str | Path]] = [
        ["--clusters-file", path],
        ["--clusters-file", path, "--cluster", "look"],
    ]
    for options in every:
        assert bare("cluster", "describe", *options, "--json").json["brokers"][0]["port"] == broker.port
    monkeypatch.setenv("BROKER_CY_CLUSTERS", str(path))
    assert bare("cluster", "describe", "--json").json["brokers"][0]["port"] == broker.port
    for change in (
        ["topics", "create", "x"],
        ["topics", "delete", "x", "--yes"],
        ["records", "delete", "x", "--before", "end", "--yes"],
        ["groups", "reset", "g", "--to-latest", "--yes"],
        ["configs", "alter", "topic", "x", "--set", "a=b", "--yes"],
        ["transactions", "abort", "x", "0", "--producer-id", "1", "--yes"],
        ["produce", "x"],
    ):
        assert (
            "cluster look: the configuration file marks it as readonly"
            in bare(*change, "--cluster", "look", code=1).err
        ), change
    assert "unknown cluster 'there'; known: here, look" in bare("cluster", "describe", "--cluster", "there", code=2).err
    both = bare("cluster", "describe", "--cluster", "here", "--bootstrap", "x:1", code=2)
    assert "cannot be used together" in both.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x", "clusters.toml:1: not TOML"),
        ("color = 1", "clusters.toml:1: color: unknown key (allowed: clusters, default)"),
        ("clusters = 1", "clusters.toml:1: clusters: 1 is not a table"),
        ("[clusters]\na = 1", "clusters.toml:2: clusters.a: 1 is not a table"),
        ("[clusters.a]", "clusters.toml:1: clusters.a.bootstrap: is missing"),
        ("[clusters.a]\nbootstrap = 1", "clusters.toml:2: clusters.a.bootstrap: 1 is not a text, HOST:PORT"),
        ('[clusters.a]\nbootstrap = "a:b"', "clusters.toml:2: clusters.a.bootstrap: 'a:b' is not an address"),
        (
            '[clusters.a]\nbootstrap = "a:1"\ntimeout_s = true',
            "clusters.toml:3: clusters.a.timeout_s: True is not a number",
        ),
        ('[clusters.a]\nbootstrap = "a:1"\ntimeout_s = 0', "clusters.toml:3: clusters.a.timeout_s: 0: must be above 0"),
        (
            '[clusters.a]\nbootstrap = "a:1"\nread-only = true',
            "clusters.toml:3: clusters.a.read-only: unknown key; did you mean 'readonly'? (allowed: bootstrap",
        ),
        (
            'default = "b"\n[clusters.a]\nbootstrap = "a:1"',
            "clusters.toml:1: default: unknown cluster 'b'; known: a",
        ),
    ],
)
def test_a_bad_file_of_clusters_is_reported(bare: Cli, tmp_path: Path, text: str, reason: str) -> None:
    """If this fails, a typing error in the file is ignored, or ends in a traceback."""
    path = clusters_file(tmp_path, text)
    said = bare("topics", "list", "--clusters-file", path, code=2)
    assert str(path) in said.err
    assert reason in said.err
    # A file that is named must be valid, with an address, too.
    assert reason in bare("topics", "list", "--clusters-file", path, "--bootstrap", "127.0.0.1:1", code=2).err


def test_config_is_not_the_file_of_clusters(bare: Cli, tmp_path: Path) -> None:
    """If this fails, --config names the settings of a server in some programs, and the clusters in others."""
    path = clusters_file(tmp_path, '[clusters.here]\nbootstrap = "127.0.0.1:1"\n')
    for words in (["topics", "list", "--config", path], ["topics", "create", "t", "--config", "retention.ms=1000"]):
        assert "No such option '--config'" in bare(*words, code=2).err


def test_variables_select_a_cluster(bare: Cli, broker: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a shell whose variables name a cluster works on another one."""
    path = clusters_file(tmp_path, f'[clusters.here]\nbootstrap = "{broker.bootstrap}"\n')

    def port(*options: str | Path) -> int:
        found: int = bare("cluster", "describe", "--json", *options).json["brokers"][0]["port"]
        return found

    monkeypatch.setenv("BROKER_CY_BOOTSTRAP", broker.bootstrap)
    assert port() == broker.port
    monkeypatch.setenv("BROKER_CY_CLUSTER", "here")
    assert "are both set" in bare("topics", "list", code=2).err
    monkeypatch.setenv("BROKER_CY_BOOTSTRAP", "")
    monkeypatch.setenv("BROKER_CY_CLUSTERS", str(path))
    assert port() == broker.port
    # An option wins over both variables.
    monkeypatch.setenv("BROKER_CY_CLUSTER", "elsewhere")
    for options in (["--bootstrap-server", broker.bootstrap], ["-b", broker.bootstrap], ["--cluster", "here"]):
        assert port(*options) == broker.port


def test_settings_of_the_command_line(bare: Cli, broker: Target) -> None:
    """If this fails, a misspelled setting of security is ignored, and a secret is printed."""
    where = ["--bootstrap", broker.bootstrap]
    bare("topics", "list", *where, "-X", "security.protocol=PLAINTEXT")
    for given, said in (
        ("security.protocols=SSL", "-X: setting security.protocols is not supported; those of security are"),
        ("client.id=x", "-X: setting client.id is not supported"),
        ("security.protocol=TLS", "-X: security.protocol=TLS is not known"),
        ("a-secret", "-X: NAME=VALUE is expected"),
    ):
        shown = bare("topics", "list", *where, "-X", given, code=2).err
        assert said in shown
        assert "a-secret" not in shown


def test_a_cluster_file_need_not_exist(bare: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a new user gets an error for the list, or a wrong file name counts as an empty file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BROKER_CY_CLUSTERS", raising=False)
    assert bare("clusters", "list", "--json").json == []
    listed = bare("clusters", "list")
    assert f"{tmp_path / 'broker-cy' / 'clusters.toml'} has no clusters" in listed.err
    assert "'one'" in bare("clusters", "use", "one", code=2).err
    monkeypatch.setenv("BROKER_CY_CLUSTERS", str(tmp_path / "none"))
    for command in (["clusters", "list"], ["topics", "list"]):
        said = bare(*command, code=2).err
        assert f"{tmp_path / 'none'}" in said
        assert "cannot be read" in said


def test_clusters_are_listed_and_selected(bare: Cli, tmp_path: Path) -> None:
    """If this fails, selecting a default cluster damages the cluster file, or selects another one."""
    text = '# ours\n[clusters.one]\nbootstrap = "a:1"\n[clusters."t w.o"]\nbootstrap = "b:2,c:3"\nreadonly = true\n'
    path = clusters_file(tmp_path, text + 'security.protocol = "SSL"\n')
    path.chmod(0o600)
    where = ["--clusters-file", str(path)]
    listed = bare("clusters", "list", *where, "--json").json
    assert [(each["name"], each["security_protocol"], each["is_default"]) for each in listed] == [
        ("one", "PLAINTEXT", False),
        ("t w.o", "SSL", False),
    ]
    assert [cell.strip() for cell in bare("clusters", "list", *where).rows()[1]] == [
        *("t w.o", "b:2,c:3", "SSL", "yes", "no"),
    ]
    for name in ("t w.o", "one"):
        bare("clusters", "use", name, *where)
        assert [each["name"] for each in bare("clusters", "list", *where, "--json").json if each["is_default"]] == [
            name
        ]
        assert path.read_text().startswith(f'default = "{name}"\n\n# ours\n')
    assert path.stat().st_mode & 0o777 == 0o600
    assert bare("clusters", "use", "one", *where, "--json").json == {"default": "one", "file": str(path)}
    before = path.read_text()
    assert "known: one, t w.o" in bare("clusters", "use", "three", *where, code=2).err
    assert path.read_text() == before
    assert "cannot be read" in bare("clusters", "list", "--clusters-file", tmp_path / "none", code=2).err


def test_names_in_the_singular(bare: Cli, broker: Target) -> None:
    """If this fails, `topic list` and `group list` are no commands."""
    for name in ("topic", "group", "broker", "acl", "user", "transaction", "log-dir", "scram-users", "reassignments"):
        assert bare(name, "--help").out
    assert bare("topic", "list", "--bootstrap", broker.bootstrap, "--json").json is not None


def test_errors_are_json_if_results_are(bare: Cli) -> None:
    """If this fails, a program that reads JSON gets a text if an option is wrong or a broker is away."""
    for arguments, code, reason in (
        (["topics", "lst", "--json"], 2, "No such command 'lst'"),
        (["topics", "list", "--json", "--no-such"], 2, "No such option"),
        (["topics", "list", "--json", "-b", "127.0.0.1:1"], 3, "connection refused: no process listens there"),
        (["topics", "delete", "x", "--json", "-b", "127.0.0.1:1"], 3, "connection refused"),
    ):
        said = bare(*arguments, code=code)
        assert reason in json.loads(said.err)["error"]["reason"], arguments
        assert not said.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(bare: Cli, shell: str) -> None:
    """If this fails, completion cannot be switched on."""
    assert "_BROKER_CY_COMPLETE" in bare("completion", shell).out


def completions(words: str, tmp_path: Path, bootstrap: str) -> list[str]:
    """Return the completions that bash would offer for the last word."""
    path = clusters_file(tmp_path, f'default = "here"\n[clusters.here]\nbootstrap = "{bootstrap}"\n')
    env = {"_BROKER_CY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = run(COMMAND, cwd=ROOT, env={**env, "BROKER_CY_CLUSTERS": str(path)}, check=False)
    return [line.split(",", 1)[1] for line in done.stdout.decode().splitlines() if line]


def test_names_are_completed(broker_cy: Cli, broker: Target, new_topic: NewTopic, name: str, tmp_path: Path) -> None:
    """If this fails, long names of topics and groups have to be typed."""
    topic = new_topic(1)
    broker_cy("groups", "reset", name, "--to-latest", "--topic", topic, "--yes")
    assert completions("broker-cy top", tmp_path, broker.bootstrap) == ["topics"]
    assert completions(f"broker-cy topics describe {topic[:8]}", tmp_path, broker.bootstrap) == [topic]
    assert completions(f"broker-cy groups delete {name[:8]}", tmp_path, broker.bootstrap) == [name]
    assert completions("broker-cy topics list --cluster h", tmp_path, broker.bootstrap) == ["here"]
    # An unavailable broker offers nothing, and prints nothing.
    (port,) = free_ports(1)
    assert completions("broker-cy topics describe t", tmp_path, f"127.0.0.1:{port}") == []


def test_a_narrow_terminal_cuts_nothing(broker: Target, new_topic: NewTopic) -> None:
    """If this fails, in a terminal of 80 columns the ends of names are cut off, and a progress bar remains."""
    topic = new_topic(1)
    shown = in_terminal(["topics", "list", "--bootstrap", broker.bootstrap])
    assert shown.code == 0
    letters = "".join(shown.screen.split())
    assert topic in letters
    assert "…" not in shown.screen


def test_asked_questions_are_answered_by_nobody_but_people(broker: Target, new_topic: NewTopic) -> None:
    """If this fails, `yes` in a pipe deletes what a script did not intend to delete."""
    topic = new_topic(1)
    argv = [*COMMAND, "topics", "delete", topic, "--bootstrap", broker.bootstrap]
    done = subprocess.run(argv, input=b"y\n", capture_output=True, cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 4
    assert b"add --yes" in done.stderr
