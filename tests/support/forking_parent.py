"""A process that has loaded the modules of a program, and forks its processes: the other side of forking.py.

`forking_parent.py PACKAGE MODULE...` loads the modules. Its stdin is a socket. Each message it receives is a JSON
object with the command line, the paths of the outputs, the environment and the working directory of a process. It
answers with the process id when the process has its session and its outputs, and sends another message when the process
has ended.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
# More than an environment and a command line.
MESSAGE_BYTES = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


def serve(requests: socket.socket, main: Callable[[], int]) -> None:
    """Fork processes until the other side closes its socket."""
    woken, wake = os.pipe()
    for each in (woken, wake):
        os.set_blocking(each, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1000)
            for pid, code in ended():
                requests.send(json.dumps({"ended": pid, "code": code}).encode())
        if requests.fileno() in ready:
            message = requests.recv(MESSAGE_BYTES)
            if not message:
                return
            requests.send(json.dumps({"pid": fork(json.loads(message), main)}).encode())


def ended() -> list[tuple[int, int]]:
    """Reap the processes that have ended; return their ids and exit codes, which are negative for signals."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


def fork(request: dict[str, Any], main: Callable[[], int]) -> int:
    """Start a process; return its id once signals to its process group reach it."""
    parent = os.getpid()
    begun, begin = os.pipe()
    pid = os.fork()
    if pid == 0:
        be_program(request, main, parent, begin)
    os.close(begin)
    os.read(begun, 1)
    os.close(begun)
    return pid


def be_program(request: dict[str, Any], main: Callable[[], int], parent: int, begin: int) -> NoReturn:
    """Run the command line in this process, as if it had been executed."""
    code, is_interrupted = 1, False
    try:
        os.setsid()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), descriptor)
        os.chdir(request["cwd"])
        os.write(begin, b"1")
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(request["env"])
        be_called(request["argv"], request["cwd"])
        code = main()
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        is_interrupted = True
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        if is_interrupted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code or 0)


def be_called(argv: list[str], cwd: str) -> None:
    """Set what the interpreter sets for a command: that of a script, or of a module after `python -m`."""
    if argv[1] == "-m":
        sys.orig_argv, sys.argv, sys.path[0] = argv, argv[2:], cwd
    else:
        sys.orig_argv, sys.argv, sys.path[0] = [sys.executable, *argv], argv, os.path.dirname(argv[0])


if __name__ == "__main__":
    package, *modules = sys.argv[1:]
    connection = socket.socket(fileno=os.dup(0))
    for each in modules:
        importlib.import_module(each)
    # Collections in the processes do not visit these objects, so that their pages stay shared.
    gc.collect()
    gc.freeze()
    serve(connection, importlib.import_module(package).main)
