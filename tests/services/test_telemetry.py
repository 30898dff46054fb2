"""What a real OpenTelemetry Collector receives of lithify, held against the registry; and that a
collector which is down, refuses or does not answer costs no work."""

import http.server
import json
import pathlib
import re
import socket
import threading
import time

import cli
import pytest
import tree as trees
from iceberg_lake import Lake
from service_script import run_script
from test_maintain import Maintained

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "METRICS.md"
INSTRUMENTS = {"sum": {True: "counter", False: "updowncounter"}, "gauge": "gauge",
               "histogram": "histogram"}
CUMULATIVE, DELTA = 2, 1


def registry():
    """Name to (kind, unit, attributes), of the page that is made of the registry."""
    rows = re.findall(r"^\| `([a-z._]+)` \| (\w+) \| `([^`]+)` \| ([^|]*) \|", PAGE.read_text(),
                      re.MULTILINE)
    return {name: (kind, unit, set(re.findall(r"`([^`]+)`", attributes)))
            for name, kind, unit, attributes in rows}


class Received:
    """What the collector wrote."""

    def __init__(self, directory):
        lines = [json.loads(line) for line in
                 (directory / "received.json").read_text().splitlines()]
        self.resources = [one["resource"] for line in lines
                          for part in ("resourceMetrics", "resourceSpans", "resourceLogs")
                          for one in line.get(part, [])]
        self.metrics = self.items(lines, "resourceMetrics", "scopeMetrics", "metrics")
        self.spans = self.items(lines, "resourceSpans", "scopeSpans", "spans")
        self.logs = self.items(lines, "resourceLogs", "scopeLogs", "logRecords")

    @staticmethod
    def items(lines, resource, scope, name):
        return [item for line in lines for one in line.get(resource, [])
                for part in one[scope] for item in part.get(name, [])]

    def values(self, name):
        """Attributes (as sorted pairs) to value, of the last export."""
        out = {}
        for metric in self.metrics:
            if metric["name"] != name:
                continue
            for point in data_of(metric)[1]["dataPoints"]:
                value = point.get("asInt", point.get("count", 0))
                out[tuple(sorted(pairs(point.get("attributes", [])).items()))] = int(value)
        return out


def pairs(attributes):
    return {one["key"]: next(iter(one["value"].values()), "") for one in attributes}


def data_of(metric):
    return next((kind, metric[kind]) for kind in INSTRUMENTS if kind in metric)


@pytest.fixture
def collector(tmp_path):
    directory = tmp_path / "collector"
    endpoint = run_script("otel_collector.sh", "start", directory)
    state = {"running": True}

    def received():
        """Ends it, so that all that it got is in its file."""
        run_script("otel_collector.sh", "stop", directory)
        state["running"] = False
        return Received(directory)

    yield endpoint, received
    if state["running"]:
        run_script("otel_collector.sh", "stop", directory)


@pytest.fixture
def lake(tmp_path):
    tree = trees.Tree(tmp_path / "lake")
    tree.fill(6, 50)
    tree.fill(1, 50, tenant="other")
    return tree


def compact(lake, env, **options):
    return cli.run("compact", lake.root, "--json", env=env, **options)


def check_metric(metric, temporality):
    kind, unit, attributes = registry()[metric["name"]]
    shape, data = data_of(metric)
    told = INSTRUMENTS[shape]
    assert (told[data.get("isMonotonic", False)] if shape == "sum" else told) == kind
    assert metric["unit"] == unit
    if kind in ("counter", "histogram"):
        assert data["aggregationTemporality"] == temporality, metric["name"]
    if kind == "updowncounter":
        assert data["aggregationTemporality"] == CUMULATIVE
    for point in data["dataPoints"]:
        assert set(pairs(point.get("attributes", []))) == attributes, metric["name"]
        assert int(point["timeUnixNano"]) >= int(point["startTimeUnixNano"]) > 10**18
        if kind == "histogram":
            assert sum(map(int, point["bucketCounts"])) == int(point["count"])
            assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1


@pytest.mark.parametrize("extra", [{}, {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
                                        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE":
                                            "delta"}])
def test_a_sweep_arrives_as_the_registry_has_it(collector, lake, extra):
    endpoint, received = collector
    compact(lake, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": "nightly",
                   "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test", **extra})
    got = received()
    for metric in got.metrics:
        check_metric(metric, DELTA if extra else CUMULATIVE)
    for resource in got.resources:
        told = pairs(resource["attributes"])
        assert told["service.name"] == "nightly"
        assert told["deployment.environment.name"] == "test"
        assert told["service.version"] and told["service.instance.id"] and told["host.name"]
    assert got.values("ourios.compaction.sweeps") == {
        (("ourios.compaction.result", "committed"),): 1}
    assert got.values("ourios.compaction.partitions") == {(): 1}
    assert got.values("ourios.compaction.files") == {(): 6}
    assert got.values("ourios.compaction.rows") == {(): 300}
    assert got.values("ourios.compaction.orphan.files") == {(): 0}
    assert got.values("ourios.storage.parquet.file.size") == {
        (("ourios.tenant", "acme"),): 1, (("ourios.tenant", "other"),): 1}
    condition = {key[0][1]: value for key, value in
                 got.values("lithify.storage.parquet.files").items() if key[1][1] == "acme"}
    assert condition == {"sized": 0, "small": 0, "open": 0, "irreducible": 1}
    sweep, = (span for span in got.spans if span["name"] == "sweep")
    rewrite, = (span for span in got.spans if span["name"] == "rewrite partition")
    commit, = (span for span in got.spans if span["name"] == "commit")
    assert rewrite["parentSpanId"] == sweep["spanId"]
    assert commit["parentSpanId"] == rewrite["spanId"]
    assert len({span["traceId"] for span in got.spans}) == 1
    assert not sweep.get("parentSpanId")


def test_what_fails_is_an_event_in_the_trace(collector, lake):
    endpoint, received = collector
    (lake.partition() / "manifest.json").write_text("{")
    compact(lake, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, code=1)
    got = received()
    event, = got.logs
    assert event["eventName"] == "ourios.compaction.sweep.error"
    assert event["severityText"] == "ERROR"
    assert pairs(event["attributes"])["ourios.tenant"] == "acme"
    sweep, = (span for span in got.spans if span["name"] == "sweep")
    assert (event["traceId"], event["spanId"]) == (sweep["traceId"], sweep["spanId"])
    assert got.values("ourios.compaction.sweeps") == {(("ourios.compaction.result", "error"),): 1}


def test_a_snapshot_names_its_trace(collector, tmp_path):
    endpoint, received = collector
    lake = Lake(tmp_path)
    lake.plain("t", files=6)
    lake.run("rewrite-data-files", "t", env={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    span, = received().spans
    assert span["name"] == "rewrite_data_files"
    assert pairs(span["attributes"])["lithify.table"] == "sales.t"
    assert lake.head("t").summary["lithify.trace-id"] == span["traceId"]


def test_without_telemetry_no_trace_is_named(tmp_path):
    lake = Lake(tmp_path)
    lake.plain("t", files=6)
    lake.run("rewrite-data-files", "t")
    assert len(lake.data_entries("t")) == 1
    assert "lithify.trace-id" not in lake.head("t").summary.additional_properties


def test_maintenance_arrives_as_the_registry_has_it(collector, tmp_path):
    endpoint, received = collector
    lake = Maintained(tmp_path)
    lake.configure()
    lake.plain("t", files=6)
    lake.opt_in("t")
    lake.report("run-once", env={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    got = received()
    for metric in got.metrics:
        check_metric(metric, CUMULATIVE)
    assert got.values("lithify.maintenance.ticks") == {(): 1}
    assert got.values("lithify.maintenance.jobs") == {
        (("lithify.outcome", "success"), ("lithify.procedure", "rewrite_data_files")): 1}
    assert got.values("lithify.maintenance.rewritten")[()] > 0
    assert got.values("lithify.table.small_files") == {(("lithify.table", "lake.sales.t"),): 6}
    span, = (one for one in got.spans if one["name"] == "rewrite_data_files")
    assert lake.head("t").summary["lithify.trace-id"] == span["traceId"]


@pytest.mark.parametrize("off", [{}, {"OTEL_SDK_DISABLED": "true"},
                                 {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
                                  "OTEL_TRACES_EXPORTER": "none"}])
def test_off_unless_asked_for(lake, off):
    seen = []
    with Refusing(200, seen) as endpoint:
        compact(lake, {**({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint} if off else {}), **off})
    assert seen == []


class Refusing:
    """A collector that answers everything with one status."""

    def __init__(self, status, seen):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802  The library's name.
                self.rfile.read(int(self.headers["Content-Length"]))
                seen.append(self.path)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.mark.parametrize("status", [400, 401, 429, 503])
def test_who_refuses_costs_no_work(lake, status):
    seen = []
    with Refusing(status, seen) as endpoint:
        done = compact(lake, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    assert {"/v1/metrics", "/v1/traces"} <= set(seen)
    assert done.err.count(f"HTTP {status}") <= 3
    assert f"HTTP {status}" in done.err or "no time left" in done.err
    assert len(trees.live(lake.partition())) == 1


@pytest.mark.parametrize("how", ["nobody listens", "nobody answers"])
def test_who_is_not_there_costs_no_work(lake, how):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if how == "nobody listens":
            listener.close()
        began = time.monotonic()
        done = compact(lake, {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"},
                       timeout=60)
        assert time.monotonic() - began < 30
    assert "do not get through" in done.err
    assert len(trees.live(lake.partition())) == 1
