"""Workers that lie, as real processes on hosts of their own (liar.py), beside one that does not: no
lie is committed. What is wrong with a result ends the job at once, and its evidence stays until the
sweep; what is wrong with the connection sends the group to the other worker."""

import json
import os
import signal
import sys
import time

import cli
import pytest
from fleet_network import PATIENCE, PORT, REGIONS, NetworkWorker, reason, wait_until
from s3_bucket import KEY, SECRET

UPSTREAM = "127.0.0.1:9141"
PATIENT = "worker.unadopted=60s"  # A lie may take a while.
ROUNDS = int(os.environ.get("LITHIFY_FLEET_NETWORK_ROUNDS", "3"))


class LyingWorker:
    def __init__(self, network, host):
        self.network, self.host = network, host
        self.listen = f"{network.hosts.address(host)}:{PORT}"
        self.honest = NetworkWorker(network, host, PATIENT, listen=UPSTREAM, tls=False)
        self.files = {name: network.directory / f"liar-{name}"
                      for name in ("lie", "told", "config")}
        certificate, key = network.authority.issue(host, network.hosts.address(host))
        self.files["config"].write_text(json.dumps({
            "listen": self.listen, "cert": str(certificate), "key": str(key),
            "ca": str(network.authority.ca), "upstream": UPSTREAM, "secret": network.secret(),
            "lie": str(self.files["lie"]), "told": str(self.files["told"]),
            "s3": {"endpoint": network.endpoint, "key": KEY, "secret": SECRET}}))
        self.tell("")
        self.errors = network.directory / "liar.log"
        with self.errors.open("w") as log:
            self.process = network.hosts.start(
                host, [sys.executable, cli.REPOSITORY / "tests" / "services" / "liar.py",
                       self.files["config"]], stdout=log, stderr=log)
        wait_until(lambda: "ready" in self.errors.read_text() or self.process.poll() is not None,
                   "the liar does not serve")
        assert self.process.poll() is None, self.errors.read_text()

    def tell(self, lie, **needs):
        self.files["lie"].write_text(f"{lie}\n{json.dumps(needs)}", encoding="utf-8")
        self.files["told"].write_text("", encoding="utf-8")

    def told(self):
        return self.files["told"].read_text(encoding="utf-8").splitlines()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)
        self.honest.stop()


@pytest.fixture(scope="module", name="liar")
def _liar(network):
    network.heal()
    made = LyingWorker(network, "w1")
    yield made
    made.stop()


@pytest.fixture(scope="module", name="honest")
def _honest(network):
    made = NetworkWorker(network, "w2", PATIENT)
    yield made
    made.stop()


def filled(network, name):
    made = network.lake(name)
    made.expected = made.fill(3, batches=2, rows=30, note_bytes=20)
    return made


@pytest.fixture(scope="module", name="untouched")
def _untouched(network, liar, honest):
    """A table that no job of these tests changes; an owner who has put the liar out of service
    finds it whole."""
    made = filled(network, "untouched")
    head = made.metadata_location("t")
    yield made
    assert made.metadata_location("t") == head
    code, said = made.job(workers=[honest])
    assert code == 0, said
    check_whole(made)


@pytest.fixture(scope="module", name="lake")
def _lake(network):
    return filled(network, "lies")


def memory_peak(process):
    """Of a process that runs, in bytes."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


long = pytest.mark.skipif(ROUNDS < 10, reason="takes ten seconds and more: with "
                          "LITHIFY_FLEET_NETWORK_ROUNDS=10 or more")
RESULT = "a worker's result is not right: "


@pytest.mark.parametrize("lie, says, evidence", [
    ("rows_missing", RESULT + "rows in ", True),
    ("rows_left_out", RESULT + "1 rows were left out, deletes name 0 at most", True),
    ("row_cut_off", RESULT + "an output's footer has ", True),
    ("not_marked", RESULT + "an output is not of this job", True),
    ("no_parquet", "no PAR1 at the end", True),
    ("outside", RESULT + "an output is not in ", True),
    ("not_there", RESULT + "an output is not there", True),
    ("live_file", RESULT, True),
    ("another_group", RESULT + "an output is another group's, too", True),
    ("wrong_partition", RESULT + "an output is of another partition than its group", True),
    ("wrong_spec", RESULT + "an output is of another partition than its group", True),
    ("wrong_size", "corrupt", True),
    ("other_inputs", RESULT + "another input than ", True),
    ("stale_snapshot", RESULT + "by snapshot ", True),
    ("stale_and_denied", RESULT + "0 rows were left out, deletes name ", True),
    ("nobody_asked", "has a member that is not known here", False),
    ("wrong_seal", "is not signed with the fleet's secret", False),
    ("wrong_number", "is not signed with the fleet's secret", False),
    ("another_attempt", "is not signed with the fleet's secret", False),
])
def test_what_is_not_right_ends_the_job(untouched, liar, honest, lie, says, evidence):
    lake = untouched
    needs = {}
    if lie.startswith("stale"):
        table = lake.load("t")
        log = [entry.metadata_file for entry in table.metadata.metadata_log]
        needs = {"metadata_location": log[-1],
                 "snapshot_id": table.current_snapshot().parent_snapshot_id,
                 "files": [entry.file.file_path for entry in lake.data_entries("t")
                           if entry.file.partition[0] in ("r0", "r1")]}
    liar.tell(lie, **needs)
    head, known = lake.metadata_location("t"), lake.data()
    # What can be said of some groups alone needs one who has them all.
    alone = lie in ("rows_left_out", "another_group", "stale_and_denied")
    workers, args = [liar] if alone else [liar, honest], ()
    if lie == "another_group":  # A group per file: several in a partition.
        args = ("--target-file-size-bytes", "4096", "--max-file-group-size-bytes", "4096")
    code, said = lake.job(*args, workers=workers)
    assert liar.told(), said
    assert code == 1, said
    assert says in reason(said), said
    assert "failed at" not in said, "no other worker was asked"
    assert lake.metadata_location("t") == head
    assert lake.live() == lake.expected
    assert bool(lake.data() - known) >= evidence, said


@pytest.mark.parametrize("lie", [
    "cut_off", "never_heard_of_it", pytest.param("says_nothing", marks=long),
    pytest.param("huge", marks=long), pytest.param("stands_still", marks=long),
    pytest.param("endless", marks=long),
])
def test_what_is_wrong_with_the_connection_goes_to_another_worker(lake, liar, honest, lie):
    liar.tell(lie)
    code, said = lake.job(workers=[liar, honest], silence="5s" if lie == "stands_still" else "30s")
    assert liar.told(), said
    assert code == 0, said
    # `endless`: the group is given to another worker, too, which is there first.
    assert f"failed at {liar.listen}" in said or "as the first of two" in said, said
    check_whole(lake)


def check_whole(lake):
    assert lake.live() == lake.expected
    assert len(lake.data_entries("t")) == REGIONS
    lake.sweep()
    assert lake.live() == lake.expected


@long
def test_endless_progress_ends(lake, liar):
    """R132: nobody else is there; `fleet.attempt` bounds it."""
    liar.tell("endless")
    code, said = lake.job(workers=[liar])
    assert code == 1, said
    assert "the attempt took longer than" in said or "Deadline Exceeded" in said, said
    liar.tell("")
    assert lake.live() == lake.expected
    assert lake.job(workers=[liar])[0] == 0
    check_whole(lake)


@pytest.mark.parametrize("lie", ["twice", "takes_it_back"])
def test_what_comes_after_the_answer_is_not_heard(lake, liar, honest, lie):
    liar.tell(lie)
    code, said = lake.job(workers=[liar, honest])
    assert liar.told() and code == 0, said
    check_whole(lake)


@long
def test_a_flood_of_frames_fills_no_memory(lake, liar, honest):
    liar.tell("flood")
    process = lake.order(workers=[liar, honest], silence="30s")
    peak = 0
    while process.poll() is None:
        peak = max(peak, memory_peak(process))
        time.sleep(0.05)
    code, said = lake.wait(process)
    assert liar.told() and code == 0, said
    assert 0 < peak < 512 << 20, peak
    check_whole(lake)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_answer_after_the_end(lake, liar, honest, network, how):
    """The coordinator is stopped or killed; a worker that does not hear it answers all the same,
    and keeps its outputs: nobody takes them, and the sweep does."""
    hold = network.directory / "hold"
    hold.touch()
    liar.tell("too_late", hold=str(hold))
    head = lake.metadata_location("t")
    process = lake.order(workers=[liar, honest], silence="30s")
    wait_until(lambda: liar.told() or process.poll() is not None, "it was asked nothing")
    process.send_signal(how)
    code, said = lake.wait(process)
    assert code == (130 if how == signal.SIGINT else -how), said
    wait_until(lambda: lake.data() - lake.reached("t"), "it has kept nothing")
    hold.unlink()
    assert lake.metadata_location("t") == head
    assert lake.live() == lake.expected
    liar.tell("")
    code, said = lake.job(workers=[liar, honest])
    assert code == 0, said
    check_whole(lake)
