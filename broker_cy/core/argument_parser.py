"""argparse's parser with an exception for a wrong option, so that a program can report it as its other errors."""

from __future__ import annotations

import argparse
from typing import NoReturn


class UsageError(Exception):
    """An option or a value is wrong. `usage` is the synopsis of the command."""

    def __init__(self, usage: str, program: str, reason: str) -> None:
        super().__init__(f"{program}: error: {reason}")
        self.usage = usage
        self.reason = reason


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse ends the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.format_usage(), self.prog, message)
