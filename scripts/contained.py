"""Runs a command so that no process of it is left: contained.py SECONDS COMMAND…

Descendants that lose their parent become children of this process (it is their "subreaper"), also
those that made themselves a session of their own. When the command has ended, or its time is up,
whatever is left of them is ended, by pid and child of this process only. Exits as the command did,
with 124 if its time was up.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def children(pid):
    """Direct children of one process of ours; none if it has ended."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def reap():
    """Collects children that have ended; False when there is none at all."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
        return True
    except ChildProcessError:
        return False


def end_leftovers():
    for how, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        until = time.monotonic() + seconds
        while reap() and time.monotonic() < until:
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, how)
                except ProcessLookupError:
                    pass
            time.sleep(0.1)


def main(limit, command):
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL).wait(timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"contained: {' '.join(command)} ran for more than {limit:.0f} s", flush=True)
        return 124
    finally:
        end_leftovers()


if __name__ == "__main__":
    status = main(float(sys.argv[1]), sys.argv[2:])
    sys.exit(status if status >= 0 else 128 - status)
