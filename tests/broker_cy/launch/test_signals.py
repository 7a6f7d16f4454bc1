"""The signals that end a program."""

from __future__ import annotations

import signal

import pytest

from broker_cy.launch.signals import ENDS, interruptible


def test_a_program_is_interrupted() -> None:
    """If this fails, Ctrl-C leaves processes and files of a program behind."""
    # The tests themselves may run under nohup.
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        before = [signal.getsignal(number) for number in ENDS]
        calls: list[None] = []
        with interruptible(lambda: calls.append(None)):
            for number in ENDS:
                signal.raise_signal(number)
            assert len(calls) == len(ENDS)
        assert [signal.getsignal(number) for number in ENDS] == before
    finally:
        signal.signal(signal.SIGHUP, hangup)


def test_the_second_interruption_may_end_the_program() -> None:
    """If this fails, Ctrl-C cannot end a program whose orderly stop takes too long."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), interruptible(interrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_program_under_nohup() -> None:
    """If this fails, a program that was started with nohup stops when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        calls: list[None] = []
        with interruptible(lambda: calls.append(None)):
            signal.raise_signal(signal.SIGHUP)
        assert not calls
    finally:
        signal.signal(signal.SIGHUP, before)
