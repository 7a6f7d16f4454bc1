"""Reading the keyboard of a real terminal.

Textual decides ten times a second whether an escape byte was the escape key or the start of another key's sequence:
leaving a screen takes 100 to 200 ms. This driver waits after an escape byte for as long as necessary, and no longer.
"""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_READ_BYTES = 4096
# How often the thread checks whether the program ends.
_IDLE_S = 0.1
# A timer of the parser that expires at the same moment as the wait would be noticed only after the next wait.
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
                # The first bytes of a character decode to nothing; to the parser, nothing is the end of the input.
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
            wait_s = constants.ESCAPE_DELAY + _SLACK_S if text.endswith(_ESCAPE) else _IDLE_S
