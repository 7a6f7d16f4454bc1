"""A nanosecond timer for gevent, whose own timers are those of libev and round to milliseconds."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import gevent

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_READ = 1
NS = 1_000_000_000


class _Itimerspec(ctypes.Structure):
    """struct itimerspec of a 64-bit Linux."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


_libc = ctypes.CDLL(None, use_errno=True)


class Timer:
    """Calls `ring` in gevent's hub at the time of the last `set`. `ring` must not block."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timerfd")
        self._spec = _Itimerspec()
        self._reference = ctypes.byref(self._spec)
        self._watcher = gevent.get_hub().loop.io(self._fd, _READ)
        self._watcher.start(self._fired)

    def set(self, at_ns: int) -> None:
        """Ring once at this time of CLOCK_MONOTONIC, immediately if it has passed. It replaces the previous time."""
        self._spec.value_s, self._spec.value_ns = divmod(max(at_ns, 1), NS)
        _libc.timerfd_settime(self._fd, _ABSOLUTE, self._reference, None)

    def _fired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # set again since
        self._ring()

    def close(self) -> None:
        self._watcher.stop()
        self._watcher.close()
        os.close(self._fd)
