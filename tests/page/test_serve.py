"""The page of a real lithify-serve, of a catalog on this machine: in a browser, and its API by the
letter of docs/api/openapi.yaml."""

import http.client
import json
import os
import pathlib
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import cli
import contract
import pytest
import server as servers
from browser import PHONE, WIDE
from iceberg_lake import Lake, plain_rows
from test_page import LOADED, check

REWRITE = "CALL system.rewrite_data_files(table => 'sales.orders', min_input_files => 2)"


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path / "warehouse")
    made.plain("orders", files=6)
    made.plain("clicks", files=2, properties={"sqe.maintenance.enabled": "true"})
    made.plain("<b>bold</b>", files=1)
    return made


@pytest.fixture
def start(tmp_path):
    running = []

    def start_one(config, *args, **options):
        running.append(servers.Server(tmp_path / f"server{len(running)}", config, *args, page=True,
                                      **options))
        return running[-1]

    yield start_one
    for server in running:
        server.stop(code=None)


def ask(url, path, token=None, status=200, headers=None, **query):
    """The answer, by the document. `status`: one, or those that will do."""
    full = url + path.lstrip("/") + "?" + urllib.parse.urlencode(query, doseq=True)
    request = urllib.request.Request(full, headers=dict(headers or {}))
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            got, body = answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        got, body = error.code, json.load(error)
    assert got in (status if isinstance(status, tuple) else (status,)), body
    contract.check(path, got, body)
    return body


@pytest.mark.parametrize("program", [servers.PROGRAM, servers.DAEMON])
def test_every_view(page, lake, start, program):
    server = start(servers.lake_config(lake), program=program)
    url = server.page_url()
    server.run(REWRITE)
    one = page()
    one.open(url)
    one.until(LOADED)
    assert one.text("#who") == "anonymous"
    links = "[...document.querySelectorAll('.body .row a')]"
    names = set(one.evaluate(links + ".map((a) => a.innerText)"))
    assert names == {"orders", "clicks", "<b>bold</b>"}
    check(one, f"served-tables-{program.name}")
    for view in ("plan", "jobs", "server"):
        one.evaluate(f"location.hash = '#/{view}'")
        one.until(f"document.querySelector('h1')?.innerText.toLowerCase() === '{view}'")
        check(one, f"served-{view}-{program.name}")
    for name in names:
        for size in (WIDE, PHONE):
            one.resize(size)
            address = "#/table/lake/sales/" + urllib.parse.quote(name, safe="")
            one.evaluate(f"location.hash = {json.dumps(address)}")
            one.until(f"document.querySelector('h1')?.innerText === {json.dumps(name)}")
            one.until("document.querySelectorAll('.panel').length === 6")
    check(one, f"served-table-{program.name}", full=True)
    assert "ALTER TABLE \"lake\".\"sales\".\"orders\" SET TBLPROPERTIES" in _gate(one)


def _gate(one):
    one.evaluate("location.hash = '#/table/lake/sales/orders'")
    one.until("document.querySelector('h1')?.innerText === 'orders'")
    return one.text("main")


def test_the_statement_that_is_copied_opts_in(lake, start):
    server = start(servers.lake_config(lake))
    url = server.page_url()
    for name in ("orders", "<b>bold</b>"):
        where = {"catalog": "lake", "namespace": "sales", "name": name}
        before = ask(url, "/api/v1/table", **where)
        (gate,) = [gate for gate in before["gates"] if gate["gate"] == "opt_in"]
        assert gate["state"] == "closed"
        server.run(gate["statement"])
        after = ask(url, "/api/v1/table", **where)
        (gate,) = [gate for gate in after["gates"] if gate["gate"] == "opt_in"]
        assert (gate["state"], gate["statement"]) == ("open", None)
        assert after["health"]["opted_in"]


def test_what_the_api_says_is_so(lake, start):
    server = start(servers.lake_config(lake))
    url = server.page_url()
    tables = ask(url, "/api/v1/tables")
    assert tables == {"namespaces": [{"catalog": "lake", "namespace": ["sales"],
                                      "tables": ["<b>bold</b>", "clicks", "orders"]}],
                      "unlisted": []}
    assert ask(url, "/api/v1/tables", catalog="lake", namespace="sales") == tables
    batch = ask(url, "/api/v1/health", catalog="lake", namespace="sales", limit=2)
    assert [row["name"] for row in batch["tables"]] == ["<b>bold</b>", "clicks"]
    assert batch["next"] == "clicks"
    rest = ask(url, "/api/v1/health", catalog="lake", namespace="sales", after="clicks", limit=2)
    (orders,) = rest["tables"]
    assert rest["next"] is None and orders["live_data_files"] == 6
    # As SQL has it.
    row = server.row("SELECT * FROM system.table_health WHERE name = 'orders'")
    assert {key: orders[key] for key in orders if key in row and key != "name"} == \
        {key: row[key] for key in orders if key in row and key != "name"}
    where = {"catalog": "lake", "namespace": "sales", "name": "orders"}
    table = ask(url, "/api/v1/table", **where)
    assert sum(table["histogram"]["before"]) == 6
    assert sum(table["histogram"]["after"]) == 1  # What the plan gives.
    assert table["log"] == {"state": "absent", "rows": []}
    assert len(table["snapshots"]) == table["snapshots_total"] == 6
    server.run(REWRITE)
    table = ask(url, "/api/v1/table", **where)
    assert sum(table["histogram"]["before"]) == 1
    assert table["snapshots"][0]["operation"] == "replace"
    assert table["health"]["last_compaction"] is not None
    (job,) = ask(url, "/api/v1/jobs")["jobs"]
    assert (job["procedure"], job["state"]) == ("rewrite_data_files", "done")
    (candidate,) = ask(url, "/api/v1/plan")["plan"]
    assert (candidate["name"], candidate["namespace"]) == ("clicks", ["sales"])
    about = ask(url, "/api/v1/server")
    assert about["caller"] == {"name": "anonymous", "verified": False, "anonymous": True}
    assert about["audit"] == {"state": "writing", "signed": False} and about["workers"] is None
    server.stop()
    asked = [line for line in server.audited() if "status_page" in json.dumps(line)]
    assert len(asked) == 7  # Neither jobs nor the server itself.


def test_the_last_jobs_are_those_of_the_log(lake, start, tmp_path):
    cli.run("init-state", "lake", "--catalog-uri", lake.uri, "--warehouse",
            cli.place.location(lake.root))
    config = tmp_path / "maintain.toml"
    config.write_text(f"""
[catalogs.lake]
uri = "{lake.uri}"
[maintenance]
mode = "active"
[maintenance.scheduler]
quiet_secs = 0
jitter_secs = 0
[maintenance.budget]
gain_percent_min = 0
""")
    lake.append("clicks", *(plain_rows(100 + 10 * n, 10) for n in range(8)))
    subprocess.run([pathlib.Path(cli.BINARY).parent / "lithify-maintain", "run-once", "--config",
                    config], check=True, capture_output=True, timeout=120,
                   env={**cli.environment(), "XDG_STATE_HOME": str(tmp_path / "state")})
    url = start(servers.lake_config(lake)).page_url()
    log = ask(url, "/api/v1/table", catalog="lake", namespace="sales", name="clicks")["log"]
    assert log["state"] == "read"
    (row,) = [row for row in log["rows"] if row["status"] == "success"]
    assert row["files_in"] > row["files_out"] > 0 and row["bytes_in"] > 0
    other = ask(url, "/api/v1/table", catalog="lake", namespace="sales", name="orders")["log"]
    assert other == {"state": "read", "rows": []}


def test_questions_that_are_none(lake, start):
    url = start(servers.lake_config(lake)).page_url()
    for status, path, query in (
            (400, "/api/v1/health", {}),
            (400, "/api/v1/health", {"catalog": "lake"}),
            (400, "/api/v1/health", {"catalog": "lake", "namespace": "sales", "limit": 0}),
            (400, "/api/v1/health", {"catalog": "lake", "namespace": "sales", "limit": "9x"}),
            (400, "/api/v1/health", {"catalog": "lake", "namespace": "sales", "limit": 10**9}),
            (400, "/api/v1/table", {"catalog": ["lake"] * 2, "namespace": "s", "name": "t"}),
            (404, "/api/v1/table", {"catalog": "other", "namespace": "sales", "name": "orders"}),
            (404, "/api/v1/table", {"catalog": "lake", "namespace": "sales", "name": "nothing"})):
        assert ask(url, path, status=status, **query)["error"]["message"]


def test_the_document_is_of_this_server(lake, start):
    url = start(servers.lake_config(lake)).page_url()
    answer, body = raw(url, "/openapi.yaml")
    assert answer.status == 200 and body == contract.PATH.read_bytes()
    assert contract.DOCUMENT["openapi"].startswith("3.1.")
    for path, methods in contract.DOCUMENT["paths"].items():
        assert list(methods) == ["get"]
        # Whether it is answered or asks for parameters: it is there, and speaks JSON.
        answer, body = raw(url, path)
        needs = any(resolved.get("required")
                    for resolved in map(contract.resolve, methods["get"].get("parameters", [])))
        assert answer.status == (400 if needs else 200), path
        contract.check(path, answer.status, json.loads(body))


def raw(url, path="/", method="GET", **headers):
    at = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_other_sites_get_nothing(lake, start):
    url = start(servers.lake_config(lake)).page_url()
    for path in ("/", "/page.js", "/api/v1/tables"):
        answer, _ = raw(url, path)
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Access-Control-Allow-Origin"] is None
        # A name of somebody else's that leads here.
        answer, body = raw(url, path, Host="evil.example")
        assert answer.status == 421 and b"orders" not in body
        assert raw(url, path, method="POST")[0].status == 405
    for site in ("cross-site", "same-site"):
        answer, body = raw(url, "/api/v1/tables", Sec_Fetch_Site=site)
        assert answer.status == 403 and b"orders" not in body
    assert raw(url, "/api/v1/tables", Sec_Fetch_Site="same-origin")[0].status == 200
    assert raw(url, "/page.css.map")[0].status == 404


def test_no_token_no_data(page, lake, start):
    url = start(servers.lake_config(lake).replace('"anonymous"', '"bearer"')).page_url()
    for path in ("/api/v1/server", "/api/v1/tables", "/api/v1/jobs", "/api/v1/plan"):
        assert "credentials" in ask(url, path, status=401)["error"]["message"]
    basic = {"Authorization": "Basic YTpi"}
    assert ask(url, "/api/v1/tables", status=401, headers=basic)
    assert b"orders" not in raw(url, "/")[1]
    one = page()
    one.open(url)
    one.until("document.querySelector('#token')")
    check(one, "served-token")
    one.problems.clear()  # The browser says that it was refused.


def test_no_token_stays_in_memory(lake, start):
    """R001, as of statements."""
    server = start(servers.lake_config(lake).replace('"anonymous"', '"bearer"'))
    url = server.page_url()
    pid = server.process.pid
    if not os.access(f"/proc/{pid}/mem", os.R_OK):
        pytest.skip("only root may look into the memory of a process that leaves no core file")
    token = "token-" + secrets.token_hex(24)
    where = {"catalog": "lake", "namespace": "sales"}
    ask(url, "/api/v1/server", token=token)
    ask(url, "/api/v1/tables", token=token)
    ask(url, "/api/v1/health", token=token, **where)
    ask(url, "/api/v1/table", token=token, name="orders", **where)
    ask(url, "/api/v1/table", token=token, status=404, name="nothing", **where)
    ask(url, "/api/v1/health", token=token, status=400)
    assert servers.occurrences(pid, b"Content-Security-Policy") > 0  # What is there is found.
    # Its last thread ends when the answer is already here.
    end = time.monotonic() + 10
    while servers.occurrences(pid, token[-24:].encode()) and time.monotonic() < end:
        time.sleep(0.1)
    assert servers.occurrences(pid, token[-24:].encode()) == 0


def test_tls_beyond_loopback_and_no_way_around_certificates(lake, start, tmp_path):
    key, certificate = tmp_path / "server.key", tmp_path / "server.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=server",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    tls = ("--set", f"server.tls_cert_file={certificate}", "--set", f"server.tls_key_file={key}")
    server = start(servers.lake_config(lake), *tls, "--set", "server.page_listen=0.0.0.0:0")
    url = server.page_url()
    assert url.startswith("https://0.0.0.0:")
    trusted = ssl.create_default_context(cafile=certificate)
    with urllib.request.urlopen(url.replace("0.0.0.0", "127.0.0.1") + "api/v1/tables", timeout=60,
                                context=trusted) as answer:
        assert json.load(answer)["namespaces"][0]["namespace"] == ["sales"]
    assert start(servers.lake_config(lake), *tls).page_url().startswith("http://127.0.0.1:")
    done = subprocess.run(
        [servers.PROGRAM, "--config", server.config, "--set", "server.listen=127.0.0.1:0", *tls,
         "--set", f"server.tls_client_ca_file={certificate}", "--set",
         "server.page_listen=127.0.0.1:0"], capture_output=True, text=True, timeout=60,
        check=False, env={**cli.environment(), "XDG_STATE_HOME": str(tmp_path / "other")})
    assert done.returncode == cli.USAGE and "certificates of clients" in done.stderr


def test_where_it_listens(lake, start, tmp_path):
    first = start(servers.lake_config(lake))
    taken = urllib.parse.urlsplit(first.page_url()).netloc
    for listen, why in ((taken, "Address already in use"), ("8081", "must be host:port"),
                        ("0.0.0.0:0", "plaintext")):
        done = subprocess.run(
            [servers.PROGRAM, "--config", first.config, "--set", "server.listen=127.0.0.1:0",
             "--set", f"server.page_listen={listen}"], capture_output=True, text=True, timeout=60,
            check=False, env={**cli.environment(), "XDG_STATE_HOME": str(tmp_path / "other")})
        assert done.returncode == cli.USAGE, done.stderr
        assert why in done.stderr and "server.page_listen" in done.stderr
