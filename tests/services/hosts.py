"""Several hosts on one machine: a network namespace each, and a switch between them, with links of
a stated rate and delay in both directions, which can be cut, for all or between two hosts, in both
directions or in one. Needs root, and nothing of the kernel that is a module. Use it as a context
manager: at its end every process that was started in it is ended, and the namespaces are gone.
"""

import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

_NUMBERS = itertools.count()
_NETWORK = "10.77.{}.{}"
_HERE = 250  # This process's own number in the network.
_WIRE = pathlib.Path(__file__).parent / "wire.py"


def available():
    """Why there can be none; empty: there can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"needs {program} (Debian: iproute2)"
    name = f"lt{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return made.stderr.strip() or "ip netns add failed"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


def _ip(*args):
    subprocess.run(["ip", *map(str, args)], check=True, capture_output=True, text=True)


def _free_subnet(first):
    """One that no other process has joined this one's namespace to."""
    routes = subprocess.run(["ip", "route", "show"], check=True, capture_output=True,
                            text=True).stdout
    for number in range(250):
        subnet = (first + number) % 250 + 1
        if _NETWORK.format(subnet, 0) not in routes:
            return subnet
    raise RuntimeError("all networks are taken: see ip route")


class Hosts:
    def __init__(self, rates, delays=None, congestion=None):
        """`rates`: Mbit/s by host, None for a link without a limit; `delays`: milliseconds that a
        packet is on its way, in each direction, for hosts that have any; `congestion`: the control
        of TCP between them ("cubic", "bbr"), where it is not to be the machine's own."""
        self._congestion = congestion
        self._number = next(_NUMBERS)
        self._prefix = f"lt{os.getpid()}x{self._number}"
        self._names = list(rates)
        self._processes = []
        self._subnet = _free_subnet(os.getpid() + self._number)
        self._made = []
        self._blocked = {}
        self._limits = {}
        self._cut = set()
        try:
            self._make(rates, delays or {})
        except BaseException:
            self.close()
            raise

    def _namespace(self, host):
        return f"{self._prefix}{host}"

    def _make(self, rates, delays):
        switch = self._namespace("sw")
        _ip("netns", "add", switch)
        self._made.append(switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for index, (host, rate) in enumerate(rates.items()):
            name = self._namespace(host)
            _ip("netns", "add", name)
            self._made.append(name)
            port = f"p{index}"
            if host in delays:
                self._lay_wire(host, port, delays[host])
            else:
                _ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port,
                    "netns", switch)
            _ip("-n", switch, "link", "set", port, "master", "br0")
            _ip("-n", switch, "link", "set", port, "up")
            _ip("-n", name, "addr", "add", self.address(host) + "/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            if self._congestion:
                address = self.address(host)
                _ip("-n", name, "route", "change", address.rsplit(".", 1)[0] + ".0/24", "dev",
                    "eth0", "proto", "kernel", "scope", "link", "src", address, "congctl",
                    self._congestion)
            # What rules say of packets from outside comes first: see block().
            _ip("-n", name, "rule", "add", "pref", 100, "lookup", "local")
            _ip("-n", name, "rule", "del", "pref", 0)
            self.limit(host, rate)

    def _lay_wire(self, host, port, delay):
        wire = subprocess.Popen(
            [sys.executable, _WIRE, self._namespace(host), "eth0", self._namespace("sw"), port,
             str(delay)], stdout=subprocess.PIPE, text=True)
        self._processes.append(wire)
        if wire.stdout.readline() != "ready\n":
            raise RuntimeError(f"no wire to {host}: it ended with {wire.wait(timeout=20)}")

    def _port(self, host):
        return f"p{self._names.index(host)}"

    def limit(self, host, rate):
        """The rate of a host's link from now on, Mbit/s; None: no limit."""
        if self._limits.get(host) == rate:
            return
        self._limits[host] = rate
        for namespace, device in ((self._namespace(host), "eth0"),
                                  (self._namespace("sw"), self._port(host))):
            subprocess.run(["tc", "-n", namespace, "qdisc", "del", "dev", device, "root"],
                           capture_output=True, check=False)
            if rate is not None:
                subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root",
                                "tbf", "rate", f"{rate}mbit", "burst", "256kb", "latency", "50ms"],
                               check=True, capture_output=True)

    def partition(self, host, cut=True):
        """Takes a host off the switch, or puts it back: packets vanish, nobody is told."""
        if cut == (host in self._cut):
            return
        _ip("-n", self._namespace("sw"), "link", "set", self._port(host), "down" if cut else "up")
        (self._cut.add if cut else self._cut.remove)(host)

    def block(self, source, target, cut=True):
        """Packets of one host to another vanish on their way, or no longer: that direction alone,
        and nobody is told."""
        pair = (source, target)
        if cut == (pair in self._blocked):
            return
        rule = ("pref", self._blocked.pop(pair, 10 + self._names.index(source)), "from",
                self.address(source), "iif", "eth0", "blackhole")
        _ip("-n", self._namespace(target), "rule", "add" if cut else "del", *rule)
        if cut:
            self._blocked[pair] = rule[1]

    def join(self):
        """Puts this process's own namespace on the switch, too, without limits."""
        link = f"{self._prefix}h"
        _ip("link", "add", link, "type", "veth", "peer", "name", "here", "netns",
            self._namespace("sw"))
        _ip("-n", self._namespace("sw"), "link", "set", "here", "master", "br0")
        _ip("-n", self._namespace("sw"), "link", "set", "here", "up")
        _ip("addr", "add", _NETWORK.format(self._subnet, _HERE) + "/24", "dev", link)
        _ip("link", "set", link, "up")

    def address(self, host):
        return _NETWORK.format(self._subnet, self._names.index(host) + 2)

    def command(self, host, argv):
        return ["ip", "netns", "exec", self._namespace(host), *map(str, argv)]

    def run(self, host, argv, **options):
        return subprocess.run(self.command(host, argv), check=options.pop("check", True), **options)

    def start(self, host, argv, **options):
        process = subprocess.Popen(self.command(host, argv), **options)
        self._processes.append(process)
        return process

    def traffic(self, host):
        """(received, sent) bytes of a host so far."""
        told = subprocess.run(["ip", "-n", self._namespace(host), "-s", "-j", "link", "show",
                               "eth0"], check=True, capture_output=True, text=True).stdout
        counted = json.loads(told)[0]["stats64"]
        return counted["rx"]["bytes"], counted["tx"]["bytes"]

    def close(self):
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self._processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=20)
        subprocess.run(["ip", "link", "del", f"{self._prefix}h"], check=False, capture_output=True)
        for name in reversed(self._made):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self._made = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def leftovers():
    """Namespaces of this process that are still there."""
    prefix = f"lt{os.getpid()}x"
    there = pathlib.Path("/run/netns")
    return sorted(p.name for p in there.iterdir() if p.name.startswith(prefix)) \
        if there.is_dir() else []
