"""If this fails, a type checker accepts fields that messages do not have."""

from tools import make_message_stubs


def test_the_generated_stubs_are_up_to_date() -> None:
    assert make_message_stubs.TARGET.read_text() == make_message_stubs.stub_text()
