"""A worker that lies: a process between a coordinator and an honest lithify-worker on the same
host, which knows the fleet's secret, and signs again what it has changed.

    liar.py CONFIG

CONFIG is JSON: `listen`, `cert`, `key`, `ca`, `upstream` (address on loopback, without TLS),
`secret`, `s3` (endpoint, key, secret), `lie` (a file with the name of what is told now, read for
each request, and after it in JSON what it needs), `told` (a file: a line for each lie). Prints
`ready`.

What there is to tell is below, at LIES."""

import base64
import io
import itertools
import json
import pathlib
import sys
import threading
import time

import fastavro
import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.fs
import pyarrow.parquet as pq

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from fleet_worker import opened, seal  # noqa: E402

HEADERS = "x-lithify-"


class Keep(flight.ServerMiddleware):
    def __init__(self, headers):
        self.headers = {name.removeprefix(HEADERS): values[0] for name, values in headers.items()
                        if name.startswith(HEADERS)}


class KeepHeaders(flight.ServerMiddlewareFactory):
    def start_call(self, info, headers):
        return Keep(headers)


class Avro:
    """The data files of a result, which were in one manifest per spec."""

    def __init__(self, frame, number=0):
        self.item = frame["new_data_files_avro"][number]
        reader = fastavro.reader(io.BytesIO(base64.b64decode(self.item["manifest"])))
        self.schema, self.metadata = reader.writer_schema, reader.metadata
        self.entries = list(reader)
        self.file = self.entries[0]["data_file"]

    def put(self, **metadata):
        out = io.BytesIO()
        kept = {name: text for name, text in {**self.metadata, **metadata}.items()
                if not name.startswith("avro.")}
        fastavro.writer(out, fastavro.parse_schema(self.schema), self.entries, metadata=kept)
        self.item["manifest"] = base64.b64encode(out.getvalue()).decode()


def path_of(frame):
    return frame["uploaded_paths"][0]


def name_path(frame, path):
    files = Avro(frame)
    files.file["file_path"] = path
    files.put()
    frame["uploaded_paths"][0] = path
    frame["report"]["outputs"][0]["name"] = path.rpartition("/")[2]


def change(frame, **members):
    files = Avro(frame)
    files.file.update(members)
    files.put()


class Liar(flight.FlightServerBase):
    def __init__(self, config):
        super().__init__(
            f"grpc+tls://{config['listen']}", middleware={"keep": KeepHeaders()},
            tls_certificates=[tuple(pathlib.Path(config[name]).read_bytes()
                                    for name in ("cert", "key"))],
            verify_client=True, root_certificates=pathlib.Path(config["ca"]).read_bytes())
        self.config = config
        self.secret = config["secret"]
        self.upstream = flight.connect(f"grpc+tcp://{config['upstream']}")
        s3 = config["s3"]
        self.fs = pyarrow.fs.S3FileSystem(
            access_key=s3["key"], secret_key=s3["secret"], region="us-east-1", scheme="http",
            endpoint_override=s3["endpoint"].removeprefix("http://"))
        self.lock = threading.Lock()
        self.given = []  # Paths of outputs so far.

    def tell(self, lie):
        with self.lock, open(self.config["told"], "a", encoding="utf-8") as told:
            told.write(lie + "\n")

    def lie(self):
        name, _, needs = pathlib.Path(self.config["lie"]).read_text("utf-8").partition("\n")
        return name, json.loads(needs or "{}")

    def ask(self, kind, body, headers):
        options = flight.FlightCallOptions(
            headers=[(f"{HEADERS}{name}".encode(), value.encode())
                     for name, value in headers.items()])
        for answer in self.upstream.do_action(flight.Action(kind, body), options):
            yield answer.body.to_pybytes()

    def sealed(self, headers, index, body, secret=None):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        signature = seal("lithify fleet 1 frame", headers["nonce"], str(index), body,
                         secret=secret or self.secret)
        return signature.encode() + body

    def sign(self, kind, body, headers):
        """The same request with another body."""
        changed = {**headers, "nonce": headers["nonce"][::-1]}
        changed["signature"] = seal(
            "lithify fleet 1 request", kind, changed["worker"], changed["issued-at"],
            changed["expires-at"], changed["nonce"], body, secret=self.secret)
        return changed

    def do_action(self, context, action):
        kind, body = action.type, action.body.to_pybytes() if action.body else b""
        headers = context.get_middleware("keep").headers
        name, needs = self.lie()
        special = LIES.get(name)
        if special and special.action == kind:
            call = Order(self, context, kind, body, headers, needs)
            for index, frame in enumerate(special.say(call)):
                if isinstance(frame, Raw):
                    yield flight.Result(pa.py_buffer(frame))
                else:
                    yield flight.Result(pa.py_buffer(self.sealed(headers, index, frame)))
            return
        for answer in self.ask(kind, body, headers):
            yield flight.Result(pa.py_buffer(answer))


class Raw(bytes):
    """A frame as it is sent, whatever its seal."""


class Order:
    """One request as the liar sees it."""

    def __init__(self, liar, context, kind, body, headers, needs):
        self.liar, self.context, self.kind, self.needs = liar, context, kind, needs
        self.body, self.headers = body, headers
        self.message = json.loads(body)

    def told(self):
        self.liar.tell(self.kind)

    def honest(self):
        for answer in self.liar.ask(self.kind, self.body, self.headers):
            yield opened(answer)

    def progress(self, **more):
        return {"frame": "progress", "group_id": self.message["group_id"], "bytes_read": 0,
                "moved": True, **more}

    def overwrite(self, path, change_table, keep_mark=True):
        """An output, by another file in its place; its size."""
        where = path.removeprefix("s3://")
        with self.liar.fs.open_input_file(where) as file:
            parquet = pq.ParquetFile(file)
            table = change_table(parquet.read())
            marks = parquet.metadata.metadata or {}
        if keep_mark:
            table = table.replace_schema_metadata(
                {**(table.schema.metadata or {}),
                 **{name: text for name, text in marks.items() if name != b"ARROW:schema"}})
        with self.liar.fs.open_output_stream(where) as out:
            pq.write_table(table, out)
        return self.liar.fs.get_file_info(where).size


class Lie:
    def __init__(self, say, action="compact_file_group"):
        self.say, self.action = say, action


LIES = {}


def about_done(lie):
    """Of the last frame: `lie(call, frame)` changes it; False: not of this group."""

    def say(call):
        for frame in call.honest():
            if frame["frame"] == "done":
                if lie(call, frame) is not False:
                    call.told()
            yield frame

    LIES[lie.__name__] = Lie(say)
    return lie


def about_call(lie):
    """All frames of a group, as `lie(call)` gives them."""

    def say(call):
        call.told()
        yield from lie(call)

    LIES[lie.__name__] = Lie(say)
    return lie


# --- what is wrong with the result ---------------------------------------------------------------


@about_done
def rows_missing(call, frame):
    """A row less, and nobody says where it went."""
    frame["rows_written"] -= 1
    frame["report"]["rows_out"] -= 1


@about_done
def rows_left_out(call, frame):
    """A row less, said to be deleted where nothing is."""
    if frame["rows_deleted"]:
        return False
    rows_missing(call, frame)
    frame["rows_deleted"] = frame["report"]["rows_deleted"] = frame["inputs"][0]["rows_deleted"] = 1
    files = Avro(frame)
    change(frame, record_count=files.file["record_count"] - 1)
    return True


@about_done
def row_cut_off(call, frame):
    """The file itself has a row less than is said of it."""
    size = call.overwrite(path_of(frame), lambda table: table.slice(1))
    change(frame, file_size_in_bytes=size)
    frame["bytes_written"] = frame["report"]["bytes_out"] = size


@about_done
def not_marked(call, frame):
    """A file with all rows that the worker of this job did not write."""
    size = call.overwrite(path_of(frame), lambda table: table, keep_mark=False)
    change(frame, file_size_in_bytes=size)
    frame["bytes_written"] = frame["report"]["bytes_out"] = size


@about_done
def no_parquet(call, frame):
    """Bytes of the stated length."""
    size = frame["bytes_written"]
    with call.liar.fs.open_output_stream(path_of(frame).removeprefix("s3://")) as out:
        out.write(b"x" * size)


@about_done
def outside(call, frame):
    """A copy, beside the table."""
    path = path_of(frame)
    elsewhere = path.rpartition("/data/")[0] + ".elsewhere/data/" + path.rpartition("/")[2]
    fs = call.liar.fs
    with fs.open_input_file(path.removeprefix("s3://")) as file, \
            fs.open_output_stream(elsewhere.removeprefix("s3://")) as out:
        out.write(file.read())
    name_path(frame, elsewhere)


@about_done
def not_there(call, frame):
    name_path(frame, path_of(frame).replace(".parquet", "-0.parquet"))


@about_done
def live_file(call, frame):
    """One of the inputs, as if it were new."""
    name_path(frame, call.message["group_file_paths"][0])


@about_done
def another_group(call, frame):
    """The output of another group of the same job and partition, with as many rows."""
    like = path_of(frame).rpartition("/")[0], Avro(frame).file["record_count"]
    with call.liar.lock:
        known = [(path, size) for path, size, other in call.liar.given if other == like]
        call.liar.given.append((path_of(frame), frame["bytes_written"], like))
    if not known:
        return False
    path, size = known[0]
    name_path(frame, path)
    change(frame, file_size_in_bytes=size)
    frame["bytes_written"] = frame["report"]["bytes_out"] = size
    return True


@about_done
def wrong_partition(call, frame):
    files = Avro(frame)
    files.file["partition"]["p0"] = b"r9"
    files.put()


@about_done
def wrong_spec(call, frame):
    files = Avro(frame)
    files.item["spec_id"] = 7
    files.put(**{"partition-spec-id": "7"})


@about_done
def wrong_size(call, frame):
    size = frame["bytes_written"] + 1
    change(frame, file_size_in_bytes=size)
    frame["bytes_written"] = frame["report"]["bytes_out"] = size


@about_done
def other_inputs(call, frame):
    frame["inputs"][0]["path"] += "x"


@about_done
def nobody_asked(call, frame):
    """A member that no version has."""
    frame["trust"] = "me"


def by_another_snapshot(call):
    """The table as it was before somebody deleted rows."""
    asked = {name: call.needs[name] for name in ("metadata_location", "snapshot_id")}
    body = json.dumps({**call.message, **asked}).encode()
    call.told()
    for answer in call.liar.ask(call.kind, body, call.liar.sign(call.kind, body, call.headers)):
        yield opened(answer)


def stale_and_denied(call):
    """The same, and says that it went by the right one. Of the files alone that it needs, to which
    position deletes apply: of others nobody can tell."""
    if call.message["group_file_paths"][0] not in call.needs["files"]:
        yield from call.honest()
        return
    for frame in by_another_snapshot(call):
        if frame["frame"] == "done":
            frame["snapshot_id"] = call.message["snapshot_id"]
        yield frame


LIES["stale_snapshot"] = Lie(by_another_snapshot)
LIES["stale_and_denied"] = Lie(stale_and_denied)


# --- what is wrong with the frames ---------------------------------------------------------------


@about_call
def twice(call):
    for frame in call.honest():
        yield frame
    yield frame


@about_call
def takes_it_back(call):
    """Done, and then failed."""
    yield from call.honest()
    yield {"frame": "failed", "transport": True, "code": "transient", "message": "no, sorry",
           "context": "", "hint": ""}


@about_call
def wrong_seal(call):
    for index, frame in enumerate(call.honest()):
        yield Raw(call.liar.sealed(call.headers, index, frame, secret="x" * 40))


@about_call
def wrong_number(call):
    for index, frame in enumerate(call.honest()):
        yield Raw(call.liar.sealed(call.headers, index + 1, frame))


@about_call
def another_attempt(call):
    """The answer that belongs to somebody else's request."""
    for index, frame in enumerate(call.honest()):
        yield Raw(call.liar.sealed({"nonce": call.headers["nonce"][::-1]}, index, frame))


@about_call
def cut_off(call):
    for frame in call.honest():
        if frame["frame"] == "done":
            return
        yield frame


def going_on(call):
    while not call.context.is_cancelled():
        time.sleep(0.2)
        yield call.progress()


@about_call
def endless(call):
    """It moves and moves."""
    list(call.honest())
    yield from going_on(call)


@about_call
def stands_still(call):
    list(call.honest())
    for frame in going_on(call):
        yield {**frame, "moved": False}


@about_call
def huge(call):
    """One frame that is larger than any."""
    yield json.dumps(call.progress()).encode() + b" " * (260 << 20)


@about_call
def flood(call):
    """As many large frames as go through."""
    body = json.dumps(call.progress()).encode() + b" " * (16 << 20)
    for _ in itertools.count():
        if call.context.is_cancelled():
            return
        yield body


def too_late(call):
    """It does not hear that nobody wants it any more: keeps what it wrote, and answers."""
    frames = list(call.honest())
    body = json.dumps({"protocol": 1, "attempt": call.message["attempt"], "s3": []}).encode()
    list(call.liar.ask("adopt_outputs", body, call.liar.sign("adopt_outputs", body, call.headers)))
    call.told()
    while pathlib.Path(call.needs["hold"]).exists():
        time.sleep(0.1)
    yield from frames


LIES["too_late"] = Lie(too_late)


# --- adoptions -----------------------------------------------------------------------------------


def never_heard_of_it(call):
    """Of outputs that it has announced a moment ago."""
    call.told()
    yield {"frame": "failed", "transport": False, "code": "not_found", "message": "no such outputs",
           "context": "", "hint": ""}


def says_nothing(call):
    """It has heard, and its answer is lost."""
    call.told()
    list(call.honest())
    raise flight.FlightUnavailableError("the answer was lost")
    yield


LIES["never_heard_of_it"] = Lie(never_heard_of_it, "adopt_outputs")
LIES["says_nothing"] = Lie(says_nothing, "adopt_outputs")


def main():
    config = json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))
    server = Liar(config)
    print("ready", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
