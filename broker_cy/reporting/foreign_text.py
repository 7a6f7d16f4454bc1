"""Foreign text, such as names and records, without the characters that would control a terminal.

Screens and pages show it by `clean`: a cell for each character, and not more of them than a screen can show. Commands
print it by `escaped`: whole, in a form that can be copied into another command or read by a program.
"""

from __future__ import annotations

# A terminal cell never gets more of a foreign text than this; the display cuts it further.
LINE_CHARACTERS_MAX = 2_000
# Characters of a name next to an axis or a button.
LABEL_MAX = 36


def _replacements() -> dict[int, str]:
    """Replacements of characters that would control the terminal, or change the direction of the text."""
    table = {code: chr(0x2400 + code) for code in range(0x20)}
    table[0x7F] = "\u2421"
    # Many terminals treat C1 controls like ESC sequences.
    table.update(dict.fromkeys(range(128, 160), "�"))
    # Bidirectional overrides and isolates, zero-width signs, line separators, and code points without a character.
    for low, high in ((0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFFF9, 0xFFFB), (0xD800, 0xDFFF)):
        table.update(dict.fromkeys(range(low, high + 1), "�"))
    table[0xFEFF] = "\ufffd"
    table[0x061C] = "\ufffd"
    return table


_CONTROLS = _replacements()
_CONTROLS_BUT_LINES = {code: sign for code, sign in _CONTROLS.items() if code not in (0x0A, 0x09)} | {0x09: "    "}


def clean(text: str) -> str:
    """One line of foreign text, with every control character replaced by a visible one."""
    return text[:LINE_CHARACTERS_MAX].translate(_CONTROLS)


def escaped(text: str) -> str:
    """Return the whole of a foreign text, with the escapes of Python for characters that are not printable."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def clean_lines(text: str) -> str:
    """As `clean`, for many lines: line breaks stay, tabs become blanks."""
    return text.translate(_CONTROLS_BUT_LINES)


def label(text: str) -> str:
    """Return a name, shortened to the room next to an axis or a button; tables and hover texts have the whole name."""
    shown = clean(text)
    return shown if len(shown) <= LABEL_MAX else f"{shown[: LABEL_MAX - 1]}…"
