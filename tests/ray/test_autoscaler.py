"""Ray's own autoscaler: the coordinator's queue brings nodes, and an empty one takes them away."""

import json
import tempfile

import pytest
import ray
from ray_cluster import STORE_BYTES, WORKER_BYTES, RayCluster


GCS_PORT = 16379  # Free: nobody else is on the cluster's network.
NODE = {"CPU": 2, "memory": 2 * WORKER_BYTES, "object_store_memory": STORE_BYTES}
COMMANDS = ("initialization_commands", "setup_commands", "head_setup_commands",
            "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands")
AUTOSCALER = {
    "cluster_name": "lithify", "max_workers": 2, "upscaling_speed": 10,
    "idle_timeout_minutes": 0.05, "auth": {}, "docker": {},
    "provider": {"type": "external", "module": "loopback_provider.LoopbackProvider",
                 "use_node_id_as_ip": True, "disable_node_updaters": True,
                 "disable_launch_config_check": True, "gcs_address": f"127.0.0.2:{GCS_PORT}"},
    "file_mounts": {}, "file_mounts_sync_continuously": False, "cluster_synced_files": [],
    "rsync_exclude": [], "rsync_filter": [], **{commands: [] for commands in COMMANDS},
    "head_node_type": "ray.head.default",
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "ray.worker.lithify": {"resources": NODE, "node_config": {}, "min_workers": 0,
                               "max_workers": 2}}}


@pytest.fixture
def cluster(monkeypatch):
    """A head without room for workers, and an autoscaler that may add two nodes."""
    monkeypatch.setenv("RAY_FAKE_CLUSTER", "1")
    monkeypatch.setenv("AUTOSCALER_UPDATE_INTERVAL_S", "1")
    monkeypatch.setenv("PYTHONPATH", str(__file__).rpartition("/")[0], prepend=":")
    with tempfile.TemporaryDirectory(prefix="lr-", dir="/tmp", ignore_cleanup_errors=True
                                     ) as directory:
        config = f"{directory}/autoscaler.yaml"
        with open(config, "w", encoding="utf-8") as file:
            json.dump(AUTOSCALER, file)
        with RayCluster(directory, gcs_server_port=GCS_PORT, autoscaling_config=config) as made:
            yield made


def nodes():
    return sorted(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])


def test_the_queue_brings_nodes(harness):
    harness = harness(0, 4)
    harness.fleet.tick()
    assert nodes() == ["127.0.0.2"] and harness.published() == {}
    harness.queue(waiting=8)
    four = harness.serving(4)
    brought = sorted({worker.node for worker in four.values()})
    assert len(brought) == 2 and nodes() == sorted(["127.0.0.2", *brought])
    harness.queue(waiting=0)
    harness.tick_until("nobody is published", lambda: harness.published() == {})
    harness.tick_until("the nodes are given back", lambda: nodes() == ["127.0.0.2"], 120)
