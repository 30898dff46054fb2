"""Where the autoscaler of the tests gets its nodes from: more of them on this machine, each with a
loopback address of its own. Ray's own provider for tests would take the machine's address."""

import functools
import itertools

import ray._private.parameter as parameter
from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider

numbers = itertools.count(1)


class LoopbackProvider(FakeMultiNodeProvider):
    def _create_node_with_resources_and_labels(self, node_config, tags, count, resources, labels):
        resources = dict(resources)
        plain = parameter.RayParams
        parameter.RayParams = functools.partial(
            plain, node_ip_address=f"127.0.1.{next(numbers)}", memory=resources.pop("memory"))
        try:
            super()._create_node_with_resources_and_labels(
                node_config, tags, count, resources, labels)
        finally:
            parameter.RayParams = plain
