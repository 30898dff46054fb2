"""A real Ray cluster on this machine: each node has a loopback address of its own (127.0.0.2, …),
and its own raylet, object store and agents. Nothing of it can be reached from the network."""

import ctypes
import fcntl
import pathlib
import socket
import struct

import ray
import ray._private.utils
from ray.cluster_utils import Cluster

STORE_BYTES = 80 * 2**20
WORKER_BYTES = 100 * 2**20


CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
isolated = []


def isolate():
    """Gives this process, and those that it starts, a network that is a loopback device and no
    more: Ray listens on all addresses of its machine, whatever it is told."""
    if isolated:
        return
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "a network namespace for Ray: run the tests as root")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    isolated.append(True)


class RayCluster:
    def __init__(self, directory, **head):
        self._directory = directory
        self._head = head
        self._nodes = {}
        self._added = 0

    def __enter__(self):
        isolate()
        # The head's address is not 127.0.0.1: Ray would take that as a request to find another.
        self._cluster = Cluster()
        # Ray notes its address here even for a cluster whose files are elsewhere.
        noted = pathlib.Path(ray._private.utils.get_ray_address_file(None))
        noted.parent.mkdir(parents=True, exist_ok=True)
        self._start(**self._arguments("127.0.0.2"), num_cpus=0, memory=WORKER_BYTES // 2,
                    temp_dir=self._directory, include_dashboard=False, **self._head)
        self.address = self._cluster.address
        ray.init(address=self.address, _node_ip_address="127.0.0.2", log_to_driver=False,
                 logging_level="warning")
        return self

    def _start(self, **arguments):
        """Ray gives a node 30 s to start; on a busy machine that may be too little once."""
        for tries_left in (2, 1, 0):
            try:
                return self._cluster.add_node(**arguments)
            except Exception as error:  # It has no type of its own.
                if "timed out during startup" not in str(error) or not tries_left:
                    raise

    def __exit__(self, *_):
        ray.shutdown()
        self._cluster.shutdown()

    @staticmethod
    def _arguments(host):
        return {"node_ip_address": host, "object_store_memory": STORE_BYTES, "num_gpus": 0}

    def add_node(self):
        """Its address; it has room for two workers."""
        host = f"127.0.0.{3 + self._added}"
        self._added += 1
        self._nodes[host] = self._start(
            **self._arguments(host), num_cpus=2, memory=2 * WORKER_BYTES)
        return host

    def kill_node(self, host):
        """As when the machine is lost: nothing of it is told to end."""
        self._cluster.remove_node(self._nodes.pop(host), allow_graceful=False)

    @property
    def hosts(self):
        """The nodes with room."""
        return sorted(self._nodes)
