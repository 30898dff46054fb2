"""A link between two network namespaces on which every packet is on its way for a stated time, in
either direction: what `tc netem delay` does, for kernels that were built without it.

    wire.py NAMESPACE DEVICE NAMESPACE DEVICE MILLISECONDS

Makes both devices (TAP), prints `ready`, and carries packets until it is ended."""

import collections
import ctypes
import fcntl
import os
import selectors
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
PACKET_BYTES_MAX = 65536 + 14
WAITING_MAX = 10_000  # Packets; what comes beyond is lost, as on any link.


def make_tap(namespace, name):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as of:
        if libc.setns(of.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns", namespace)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


class Direction:
    def __init__(self, source, target, delay):
        self.source, self.target, self.delay = source, target, delay
        self.waiting = collections.deque()

    def take(self):
        """All that has come."""
        while True:
            try:
                packet = os.read(self.source, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            if len(self.waiting) < WAITING_MAX:
                self.waiting.append((time.monotonic() + self.delay, packet))

    def give(self):
        """All that is due; how long until the next is."""
        while self.waiting:
            left = self.waiting[0][0] - time.monotonic()
            if left > 0:
                return left
            try:
                os.write(self.target, self.waiting.popleft()[1])
            except OSError:
                pass  # The other end is down: the packet is lost.
        return None


def main():
    near, near_device, far, far_device, milliseconds = sys.argv[1:]
    taps = make_tap(near, near_device), make_tap(far, far_device)
    delay = float(milliseconds) / 1000
    directions = [Direction(taps[0], taps[1], delay), Direction(taps[1], taps[0], delay)]
    selector = selectors.DefaultSelector()
    for direction in directions:
        selector.register(direction.source, selectors.EVENT_READ, direction)
    print("ready", flush=True)
    while True:
        due = [left for direction in directions if (left := direction.give()) is not None]
        for key, _ in selector.select(min(due, default=None)):
            key.data.take()


if __name__ == "__main__":
    main()
