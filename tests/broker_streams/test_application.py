"""Errors of a user's file name the file, the line and what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker_streams.application import ApplicationError, load

HEAD = "from broker_streams import StreamsBuilder\nbuilder = StreamsBuilder()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "1 / 0\n", "{app}, line 3: ZeroDivisionError: division by zero"),
        (HEAD + "builder.strom('in')\n", "{app}, line 3: AttributeError: 'StreamsBuilder' object has no"),
        (
            HEAD + "builder.stream('in').map_values(5)\n",
            "{app}, line 3: the mapper of KSTREAM-MAPVALUES-0000000001",
        ),
        ("import\n", "{app}, line 1: SyntaxError: invalid syntax"),
        ("import beside\n", "{app}, line 1: {beside}, line 2: KeyError: 'x'"),
        ("import torn\n", "{torn}, line 1: SyntaxError: invalid syntax"),
    ],
)
def test_errors_of_the_file_name_its_line(text: str, expected: str, tmp_path: Path) -> None:
    """If this fails, the command ends with a traceback of its own code, or without the line to mend."""
    app, beside, torn = (tmp_path / f"{name}.py" for name in ("app", "beside", "torn"))
    app.write_text(text)
    beside.write_text("rows = {}\nrows['x']\n")
    torn.write_text("import\n")
    with pytest.raises(ApplicationError, match="^" + re.escape(expected.format(app=app, beside=beside, torn=torn))):
        load(app)
