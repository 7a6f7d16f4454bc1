"""The command lines that README.md, CONTRIBUTING.md and docs/*.md show in their code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# First words of command lines; any other line of a block is output, configuration or code.
PROGRAMS = {
    "broker-analytics",
    "broker-bench",
    "broker-cy",
    "broker-dash",
    "broker-load",
    "broker-mirror",
    "broker-registry",
    "broker-sql",
    "broker-streams",
    "broker-tui",
    "echo",
    "kcat",
    "make",
    "pip",
    "python",
    "spark-submit",
}
# Exactly four blanks: text that is indented further belongs to a list.
_BLOCK_LINE = re.compile(r"^ {4}(?=\S)")


@dataclass(frozen=True)
class Line:
    """A command line exactly as the document shows it, without a prompt; `output` is the text below it."""

    place: str
    command: str
    output: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.place}: {self.command}"


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def documented() -> list[Line]:
    """Every command line, in the order of the documents."""
    return [line for document in documents() for line in lines_of(document.name, document.read_text())]


def lines_of(name: str, text: str) -> list[Line]:
    """Return the command lines of one document. AssertionError if a prompt precedes an unknown program."""
    found: list[Line] = []
    for block in blocks(text):
        with_prompts = any(line.startswith("$ ") for _, line in block)
        for number, line in block:
            command = line.removeprefix("$ ")
            is_command = Path(command.split()[0]).name in PROGRAMS if command.split() else False
            assert is_command or not line.startswith("$ "), f"{name}:{number}: {line}: what program is this?"
            if is_command and (line.startswith("$ ") or not with_prompts):
                found.append(Line(f"{name}:{number}", command.rstrip()))
            elif with_prompts and found:
                last = found[-1]
                found[-1] = Line(last.place, last.command, (*last.output, line))
    return found


def blocks(text: str) -> list[list[tuple[int, str]]]:
    """Yield the lines of each code block, indented or fenced, with their numbers. Files (```ini) have no commands."""
    found: list[list[tuple[int, str]]] = []
    fenced = is_file = False
    block: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
            is_file = fenced and line.strip() == "```ini"
        elif fenced:
            if not is_file:
                block.append((number, line))
            continue
        elif _BLOCK_LINE.match(line):
            block.append((number, line[4:]))
            continue
        if block:
            found.append(block)
        block = []
    return [*found, block] if block else found


def shape_of(line: str) -> re.Pattern[str]:
    """Return the pattern of a line of output, with any numbers. Addresses are compared exactly."""
    parts = re.split(r"(127\.0\.0\.1:\d+|\d+)", line)
    return re.compile("".join(r"\d+" if part.isdigit() else re.escape(part) for part in parts))
