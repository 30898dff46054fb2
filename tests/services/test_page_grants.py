"""The status page before a catalog that asks a policy about every request: each token sees what the
catalog lets it see, in the API and in a browser, and its token goes nowhere else."""

import sys

import cli
import pytest
from granting import Grants
from rest_lake import delete_rows

sys.path.insert(0, str(cli.REPOSITORY / "tests" / "page"))

import browser as browsers  # noqa: E402
import server as servers  # noqa: E402
from test_serve import ask, raw  # noqa: E402

# What this catalog answers of what a caller may not see: it denies it, or that it is there.
HIDDEN = (403, 404)
counter = iter(range(10**6))


class Served(Grants):
    def __init__(self, service, home, namespace, config, directory):
        super().__init__(service, home, namespace, config)
        self.server = servers.Server(directory, f"""
[server]
local_files = true
[catalogs.lake]
uri = "{service.uri}"
""", page=True)
        self.url = self.server.page_url()

    def ask(self, role, path, status=200, **query):
        return ask(self.url, path, token=self.service.keys[role], status=status, **query)

    def where(self, name="t"):
        return {"catalog": "lake", "namespace": list(self.namespace), "name": name}


@pytest.fixture
def lakes(granting, tmp_path):
    """One in a namespace of which there are grants, and one of the owner alone."""
    made = []
    for top in ("sales", "secret"):
        home = tmp_path / top
        home.mkdir()
        lake = Served(granting, home / "state", (top, f"p{next(counter)}"), home / "lithify.toml",
                      home / "server")
        made.append(lake)
        lake.plain("t", files=6)
        delete_rows(lake, "t", [0, 5])
    yield made
    for lake in made:
        lake.server.stop(code=None)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = browsers.Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


def listed(lake, role):
    """What the token may list; None: not even namespaces."""
    answer = lake.ask(role, "/api/v1/tables")
    if answer["unlisted"] == ["lake"]:
        assert answer["namespaces"] == []
        return None
    return {(tuple(group["namespace"]), table) for group in answer["namespaces"]
            for table in group["tables"]}


def test_each_token_sees_its_own(lakes):
    sales, secret = lakes
    mine, other = (sales.namespace, "t"), (secret.namespace, "t")
    assert {mine, other} <= listed(sales, "owner")
    # This catalog lets nobody list what is above a grant; a namespace is found by its name.
    assert listed(sales, "reader") is None and listed(sales, "nobody") is None
    in_mine = {"catalog": "lake", "namespace": list(sales.namespace)}
    (group,) = sales.ask("reader", "/api/v1/tables", **in_mine)["namespaces"]
    assert group["tables"] == ["t"]
    (health,) = sales.ask("reader", "/api/v1/health", **in_mine)["tables"]
    assert health["live_data_files"] == 6
    sales.ask("nobody", "/api/v1/tables", status=HIDDEN, **in_mine)
    sales.ask("nobody", "/api/v1/table", status=HIDDEN, **sales.where())
    table = sales.ask("reader", "/api/v1/table", **sales.where())
    assert table["health"]["live_data_files"] == 6 and table["health"]["delete_files"] > 0
    assert table["log"]["state"] in ("hidden", "absent")
    # Of what is another's nothing is told: not even whether it is there.
    for role in ("reader", "nobody"):
        refused = sales.ask(role, "/api/v1/table", status=HIDDEN, **secret.where())
        absent = sales.ask(role, "/api/v1/table", status=HIDDEN, **secret.where("none"))
        assert refused["error"]["code"] == absent["error"]["code"]
        sales.ask(role, "/api/v1/health", status=HIDDEN, catalog="lake",
                  namespace=list(secret.namespace))
    assert sales.ask("owner", "/api/v1/table", **secret.where())["name"] == "t"
    # A change is nobody's here.
    assert raw(sales.url, "/api/v1/table", method="POST")[0].status == 405


def test_no_token_and_a_wrong_one(lakes):
    sales, _ = lakes
    ask(sales.url, "/api/v1/tables", status=401)
    for path in ("/api/v1/tables", "/api/v1/plan"):
        assert ask(sales.url, path, token="rb_" + "x" * 40, status=401)["error"]["message"]


def test_plan_and_jobs_are_the_callers(lakes):
    sales, secret = lakes
    for lake in lakes:
        lake.server.run(f"ALTER TABLE {'.'.join(lake.namespace)}.t SET TBLPROPERTIES "
                        "('sqe.maintenance.enabled' = 'true')", token=lake.service.keys["owner"])

    def planned(role):
        return {tuple(one["namespace"]) for one in sales.ask(role, "/api/v1/plan")["plan"]}

    assert {sales.namespace, secret.namespace} <= planned("owner")
    sales.ask("reader", "/api/v1/plan", status=403)  # As SELECT … FROM system.maintenance_plan.
    sales.server.run(f"CALL system.rewrite_data_files(table => '{'.'.join(sales.namespace)}.t', "
                     "min_input_files => 2)", token=sales.service.keys["writer"])
    assert len(sales.ask("writer", "/api/v1/jobs")["jobs"]) == 1
    assert sales.ask("reader", "/api/v1/jobs")["jobs"] == []


def test_in_a_browser(lakes, browser):
    sales, secret = lakes
    for role, seen in (("reader", True), ("nobody", False)):
        key = sales.service.keys[role]
        page = browser.page()
        page.open(sales.url)
        page.until("document.querySelector('#token')")
        page.type(key)
        page.press("Enter", 13, "\r")
        page.until("document.querySelector('form.notice')?.hidden === false")
        page.click("form.notice input")
        page.type(".".join(sales.namespace))
        page.press("Enter", 13, "\r")
        page.until("document.querySelector('.body .row, .notice.warn')")
        rows = "[...document.querySelectorAll('.body .row')]"
        shown = page.evaluate(rows + ".map((r) => r.innerText)")
        assert any(".".join(sales.namespace) in row for row in shown) == seen
        assert not any(secret.namespace[1] in row for row in shown)
        page.screenshot(f"grants-{role}")
        assert page.violations() == []
        assert key not in page.evaluate("""JSON.stringify([{...localStorage}, {...sessionStorage},
          document.cookie, location.href, document.documentElement.outerHTML])""")
        assert all(request["url"].startswith(sales.url) for request in page.requests
                   if request["headers"].get("Authorization"))
        page.close()
    sales.server.stop()
    log = sales.server.audit_log.read_text()
    assert all(key not in log for key in sales.service.keys.values())
    assert "status_page" in log
