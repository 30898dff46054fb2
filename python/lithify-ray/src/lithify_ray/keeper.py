"""Runs one worker, so that it never outlives the actor that asked for it.

Usage: python -m lithify_ray.keeper DRAIN_SECONDS PROGRAM [ARG…]

A process between the two, because each of them may end in any way:
  - the actor ends, even by SIGKILL: standard input ends, and the worker is told to drain;
  - this process ends, even by SIGKILL: the kernel kills the worker (PR_SET_PDEATHSIG, which acts
    when the *thread* that forked ends; this process has one thread, an actor has many).

Standard input: "drain SECONDS" lets the worker end what it runs for so long; SECONDS = 0 kills it.
Standard output: "pid N" once, or "error WHY". What the worker prints goes to standard error.
Exit code: the worker's; 128 + N if signal N ended it.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
# A worker that drains may need a moment more than it allows its groups.
GRACE_SECONDS = 2.0
libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent):
    """In the child, before it becomes the worker."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class Keeper:
    def __init__(self, drain_seconds, command):
        self._drain_seconds = drain_seconds
        keeper = os.getpid()
        # 2: standard output is for the actor.
        self._worker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2,
                                        preexec_fn=lambda: die_with(keeper))
        self._deadline = None
        self._unread = b""

    def run(self):
        print(f"pid {self._worker.pid}", flush=True)
        ended = os.pidfd_open(self._worker.pid)
        woken, wake = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        poll = select.poll()
        for descriptor in (ended, woken, 0):
            poll.register(descriptor, select.POLLIN)
        while self._worker.poll() is None:
            ready = [descriptor for descriptor, _ in poll.poll(self._wait_ms())]
            if woken in ready:
                os.read(woken, 64)
                self._drain(self._drain_seconds)
            if 0 in ready and not self._hear():
                poll.unregister(0)
                self._drain(self._drain_seconds)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._worker.kill()
                self._deadline = None
        code = self._worker.returncode
        return 128 - code if code < 0 else code

    def _wait_ms(self):
        if self._deadline is None:
            return None
        return max(0, int(1000 * (self._deadline - time.monotonic())) + 1)

    def _hear(self):
        """False once the actor is gone."""
        told = os.read(0, 4096)
        *lines, self._unread = (self._unread + told).split(b"\n")
        for line in lines:
            word, _, seconds = line.decode().partition(" ")
            if word == "drain":
                self._drain(float(seconds))
        return bool(told)

    def _drain(self, seconds):
        """The first one tells the worker; a later one can only shorten the time."""
        if seconds <= 0:
            self._worker.kill()
            return
        deadline = time.monotonic() + seconds + GRACE_SECONDS
        if self._deadline is None:
            self._worker.terminate()
        self._deadline = min(deadline, self._deadline or deadline)


def main(arguments):
    drain_seconds, *command = arguments
    try:
        keeper = Keeper(float(drain_seconds), command)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"error {error}", flush=True)
        return 127
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
