"""Java's .properties format: a file that Kafka reads must mean the same here."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import FILE_BYTES_MAX, parse_properties, read_properties_file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b  \n", {"a": "b  "}),
        ("a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
        ("# a=b\n! c=d\n\n  # e=f", {}),
        ("a=b\\\n   c\\\n  d", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e4\\tb\\q", {"a": "ä\tbq"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
        ("a=b\rc=d\r\ne=f", {"a": "b", "c": "d", "e": "f"}),
        ("=b", {"": "b"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_errors_name_the_place(tmp_path: Path) -> None:
    """An operator must learn which file and line is wrong."""
    file = tmp_path / "server.properties"
    file.write_text("a=b\nc=\\u12\n")
    with pytest.raises(ConfigError, match=r"server.properties: line 2: \\u must be followed by"):
        read_properties_file(file)
    with pytest.raises(ConfigError, match=r"cannot read .*absent: No such file"):
        read_properties_file(tmp_path / "absent")
    file.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="not a settings file"):
        read_properties_file(file)
