"""Reading the keyboard of a real terminal.

Textual looks ten times a second whether an escape key was one, or the first byte of another key: leaving a screen takes
a tenth of a second or two. Here the wait behind an escape is as long as it has to be, and no longer.
"""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_READ_BYTES = 4096
# How often the end of the program is looked for.
_IDLE_S = 0.1
# A timer of the parser that runs out at the same moment as the wait would be seen only after the next one.
_SLACK_S = 0.002
_ESCAPE = "\x1b"


class TerminalDriver(LinuxDriver):
    """The driver of the console."""

    def run_input_thread(self) -> None:
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        wait_s = _IDLE_S
        while not self.exit_event.is_set():
            text = ""
            if select.select([self.fileno], [], [], wait_s)[0]:
                data = os.read(self.fileno, _READ_BYTES)
                if not data:
                    break
                text = decode(data)
                # A part of a character is none yet, and nothing at all would be the end.
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
            wait_s = constants.ESCAPE_DELAY + _SLACK_S if text.endswith(_ESCAPE) else _IDLE_S
