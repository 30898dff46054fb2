"""A server of made-up tables that answers as docs/api/openapi.yaml says, with the files of the page
as they are in the sources: any number of tables, and names that nobody should trust."""

import http.server
import json
import pathlib
import random
import threading
import urllib.parse

import contract

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ASSETS = REPOSITORY / "src" / "page" / "assets"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8"}
# As src/page/page.cc has it.
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
          "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "\"><svg onload=alert(3)>",
    "javascript:alert(4)",
    "orders\u202egnp.exe",
    "\u200borders\u0000\u0007",
    "طلبات العملاء",
    "הזמנות",
    "a" * 4000,
    "many words " * 60,
    "../../../etc/passwd",
    "%2e%2e%2f%00",
    "{{constructor.constructor('alert(5)')()}}",
    "'; DROP TABLE orders; --",
    "__proto__",
    "👩‍👩‍👧‍👦 family",
    "e" + "\u0301" * 200,
]
SUBJECTS = ["orders", "clicks", "payments", "sessions", "inventory", "shipments", "spans", "logs",
            "metrics", "invoices", "carts", "devices", "trips", "readings", "events", "returns"]
REGIONS = ["eu", "us", "apac", "latam", "mea"]
BOUNDS = [1 << n for n in range(16, 34, 2)]


class Tables:
    """`count` tables, the same each time."""

    def __init__(self, count, hostile=()):
        self.random = random.Random(7)
        self.namespaces = {}
        spread = max(1, min(500, count // 20))
        for at in range(count - len(hostile)):
            parts = (["sales", "web", "iot", "core"][at % 4], f"team_{at % spread:03d}")
            self.add(parts, f"{SUBJECTS[at % 16]}_{REGIONS[at % 5]}_{at:05d}")
        for name in hostile:
            self.add(("hostile", "<b>ns</b>\u202e"), name)

    def add(self, parts, name):
        draw = self.random
        files = int(draw.paretovariate(0.7) * 8) % 20000 + 1
        small = int(files * draw.random() ** 2)
        average = int(2 ** draw.uniform(19, 28))
        deletes = draw.choice([0, 0, 0, draw.randrange(200)])
        self.namespaces.setdefault(parts, {})[name] = {
            "name": name, "small_files": small, "live_data_files": files,
            "avg_file_bytes": average, "total_bytes": files * average,
            "total_records": files * 41_000, "delete_files": deletes,
            "delete_ratio": deletes / 4000, "eligible_groups": small // 8,
            "est_rewrite_bytes": small * average // 3, "opted_in": draw.random() < 0.4,
            "last_compaction": draw.choice([None, "2026-11-28T04:12:00.000000Z"])}

    def listed(self):
        return {"namespaces": [{"catalog": "lake", "namespace": list(parts),
                                "tables": sorted(tables)}
                               for parts, tables in self.namespaces.items()], "unlisted": []}

    def batch(self, parts, after, limit):
        tables = self.namespaces.get(parts, {})
        names = sorted(name for name in tables if after is None or name > after)
        rows = [tables[name] for name in names[:limit]]
        if rows and len(names) % 37 == 5:
            rows[0] = {"name": rows[0]["name"], "error": "denied"}
        return {"tables": rows, "next": names[limit - 1] if len(names) > limit else None}

    def table(self, parts, name):
        health = self.namespaces[parts][name]
        draw = random.Random(name)
        before = [0] * (len(BOUNDS) + 1)
        for _ in range(min(health["live_data_files"], 5000)):
            before[min(len(BOUNDS), int(draw.triangular(0, 9.5, 3)))] += 1
        after = [n // 9 for n in before[:5]] + before[5:]
        after[6] += sum(before[:5]) // 40 + 1
        plan = [candidate(draw, at, health) for at in range(6)] if health["small_files"] else []
        return {"catalog": "lake", "namespace": list(parts), "name": name, "health": health,
                "histogram": {"bounds": BOUNDS, "before": before, "after": after},
                "snapshots": snapshots(draw), "snapshots_total": 341,
                "gates": gates(health["opted_in"], parts, name), "plan": plan,
                "log": {"state": "read", "rows": [log_row(draw, at) for at in range(5)]}}

    def plan(self):
        rows = []
        for parts, tables in self.namespaces.items():
            for name, health in tables.items():
                if health["opted_in"] and health["small_files"] and len(rows) < 400:
                    rows.append({"catalog": "lake", "namespace": list(parts), "name": name,
                                 **candidate(random.Random(name), len(rows), health)})
        return {"plan": rows}


def candidate(draw, at, health):
    chosen = at < 3
    return {"partition": f"day=2026-11-{28 - at % 27:02d}" if at else None, "kind": "rewrite",
            "verdict": "run" if chosen else "too_little_gain",
            "reason": "saves 4 310 s of reads for 96 s of work" if chosen
                      else "saves 12 s of reads for 40 s of work: a ratio of 0.3 is below 1.5",
            "rank": at + 1 if chosen else None, "score": round(44 / (at + 1), 2),
            "files": health["small_files"] // 6 + 2, "bytes": health["est_rewrite_bytes"] // 6,
            "outputs": 1 + at % 3, "delete_rows": draw.randrange(900), "saved_seconds": 4310.0,
            "compute_seconds": 96.5, "reads_per_day": 40.0, "survival": 0.8}


def snapshots(draw):
    rows, deletes, files = [], 0, 400
    for at in range(60):
        operation = "replace" if at % 17 == 16 else draw.choice(["append", "append", "overwrite"])
        if operation == "replace":
            deletes, files = deletes // 12, files // 8
        elif operation == "overwrite":
            deletes += draw.randrange(60_000)
        else:
            files += draw.randrange(40)
        rows.append({"snapshot_id": str(7_300_000_000_000_000_000 + at), "operation": operation,
                     "committed_at": f"2026-11-{at // 2 + 1:02d}T{at % 24:02d}:30:00.000000Z",
                     "is_current": at == 59, "refs": ["main"] if at == 59 else [],
                     "total_data_files": files, "total_files_size": files * 9_000_000,
                     "total_records": 90_000_000 + at * 1000, "total_delete_files": deletes // 900,
                     "total_position_deletes": deletes, "total_equality_deletes": 0})
    return rows[::-1]


def gates(opted_in, parts, name):
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in ("lake", *parts, name))
    return [{"gate": "opt_in", "state": "open" if opted_in else "closed",
             "reason": "sqe.maintenance.enabled is true" if opted_in
                       else "sqe.maintenance.enabled is not set: the table's owner has not asked",
             "statement": None if opted_in else
             f"ALTER TABLE {quoted} SET TBLPROPERTIES ('sqe.maintenance.enabled' = 'true')"},
            {"gate": "grant", "state": "unknown",
             "reason": "Whether the principal of maintenance may write here is the catalog's to "
                       "say; the last jobs tell whether it could.", "statement": None}]


def log_row(draw, at):
    failed = at == 2
    size = draw.randrange(10**8, 10**10)
    return {"job_id": f"0193f3a0-0000-7000-8000-00000000000{at}",
            "status": "failed" if failed else "success",
            "started": f"2026-11-{29 - at:02d}T03:00:00.000000Z",
            "ended": f"2026-11-{29 - at:02d}T03:0{at + 1}:10.000000Z",
            "files_in": 0 if failed else 310, "files_out": 0 if failed else 12,
            "bytes_in": 0 if failed else size, "bytes_out": 0 if failed else size * 9 // 10,
            "rows_removed": 0 if failed else 4120,
            "error": "conflict: a delete reached an input, three times" if failed else None}


class Jobs:
    """One that gets on with each look at it, and some that ended."""

    def __init__(self, table):
        self.looks = 0
        self.table = table

    def __call__(self):
        self.looks += 1
        done = min(100, 7 * self.looks)
        rows = [job(0, "rewrite_data_files", self.table, "running", done << 20),
                job(1, "expire_snapshots", "lake.sales.orders", "done", 0),
                job(2, "rewrite_data_files", "lake.web.clicks", "failed", 5 << 20),
                job(3, "remove_orphan_files", "lake.web.clicks", "cancelled", 0)]
        return {"now": "2026-11-29T12:03:10.000000Z", "jobs": rows}


def job(at, procedure, table, state, done):
    return {"id": f"0193f3a0-0000-7000-8000-1000000000{at:02d}", "procedure": procedure,
            "table": table, "state": state, "cancel_requested": False,
            "bytes_total": 100 << 20 if done else 0, "bytes_done": done, "items_total": 12,
            "items_done": 3, "message": "group 3 of 12" if state == "running" else "",
            "started": "2026-11-29T12:00:00.000000Z",
            "finished": None if state == "running" else "2026-11-29T12:02:00.000000Z",
            "error": "conflict: the table was replaced" if state == "failed" else ""}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.server.gone:
            self.close_connection = True
            return None
        url = urllib.parse.urlsplit(self.path)
        if url.path.startswith("/api/"):
            query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
            status, answer = self.server.answer(url.path, query, self.headers)
            contract.check(url.path, status, answer)
            return self.send(status, json.dumps(answer).encode(), "application/json")
        name = url.path.lstrip("/") or "index.html"
        path = ASSETS / name
        if path.parent != ASSETS or not path.is_file():
            return self.send(404, b"not found\n", "text/plain")
        return self.send(200, path.read_bytes(), TYPES[path.suffix])

    def send(self, status, body, type_):
        self.send_response(status)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)


class MadeUp(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tables, token=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tables = tables
        self.token = token
        self.gone = False  # True: it takes connections, and answers nobody.
        first = next(iter(tables.namespaces.items()))
        self.jobs = Jobs(".".join(["lake", *first[0], next(iter(first[1]))]))
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def stop(self):
        self.shutdown()
        self.server_close()
        self.thread.join()

    def answer(self, path, query, headers):
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return 401, error("denied", "no credentials were sent", "send a bearer token")
        parts = tuple(query.get("namespace", []))
        if path == "/api/v1/server":
            return 200, {"program": "lithify", "version": "0.1.0", "catalogs": ["lake"],
                         "caller": {"name": "ana", "verified": True, "anonymous": False},
                         "audit": {"state": "writing", "signed": True},
                         "workers": [{"state": "healthy", "groups": 3, "slots": 8},
                                     {"state": "unhealthy", "groups": 0, "slots": 8}]}
        if path == "/api/v1/tables":
            return 200, self.tables.listed()
        if path == "/api/v1/health":
            return 200, self.tables.batch(parts, query.get("after", [None])[0],
                                          int(query["limit"][0]))
        if path == "/api/v1/table":
            if query["name"][0] not in self.tables.namespaces.get(parts, {}):
                return 404, error("not_found", "there is no such table", "")
            return 200, self.tables.table(parts, query["name"][0])
        if path == "/api/v1/plan":
            return 200, self.tables.plan()
        return 200, self.jobs()


def error(code, message, hint):
    return {"error": {"code": code, "message": message, "hint": hint}}
