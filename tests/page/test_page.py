"""The status page in a real browser, against made-up tables: every view, at every size, for every
reader; screenshots are kept in build/page."""

import json

import made_up
import pytest
from browser import PHONE, WIDE
from made_up import HOSTILE

SIZES = {"wide": WIDE, "phone": PHONE}
LOADED = "document.querySelector('.tools > progress')?.hidden === true"


def opened(page, server, size=WIDE, dark=False, view=""):
    one = page(size, dark)
    one.open(server.url + view)
    return one


def check(one, name, full=False):
    """No finding of axe, nothing wider than the window, and a screenshot."""
    one.screenshot(name, full)
    assert one.violations() == []
    texts = one.evaluate("[...document.querySelector('main').childNodes].map((n) => n.nodeName)")
    assert "#text" not in texts  # "undefined".
    assert one.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [10, 1000, 50_000])
def test_all_tables(page, serve, count, size):
    one = opened(page, serve(count), SIZES[size], dark=count == 1000)
    one.until(LOADED, seconds=120)
    grid = one.evaluate("""(() => { const g = document.querySelector('[role=grid]');
      return [g.getAttribute('aria-rowcount'), g.querySelectorAll('.body .row').length]; })()""")
    assert grid[0] == str(count + 1)
    assert grid[1] <= 60  # What is not in sight is not there.
    debts = one.evaluate("""[...document.querySelectorAll('.body .row')].map((r) =>
      Number(r.dataset.at))""")
    assert debts == sorted(debts)
    check(one, f"tables-{count}-{size}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("view", ["plan", "jobs", "server"])
def test_views(page, serve, view, dark, size):
    one = opened(page, serve(200), SIZES[size], dark, f"#/{view}")
    one.until("document.querySelector('h1')")
    check(one, f"{view}-{size}{'-dark' if dark else ''}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True])
def test_one_table(page, serve, dark, size):
    server = serve(200)
    parts, tables = next(iter(server.tables.namespaces.items()))
    name = max(tables, key=lambda table: tables[table]["small_files"])
    one = opened(page, server, SIZES[size], dark, "#/table/" + "/".join(["lake", *parts, name]))
    one.until("document.querySelectorAll('.panel').length === 6")
    assert one.text("h1") == name
    for words in ("Files by size", "Deleted rows that reads still apply", "Last jobs", "Snapshots",
                  "a ratio of 0.3 is below 1.5"):
        assert words in one.text("main")
    # Each chart has its numbers as a table.
    assert one.evaluate("document.querySelectorAll('figure svg[role=img]').length") == 2
    assert one.evaluate("document.querySelectorAll('figure details table').length") == 2
    check(one, f"table-{size}{'-dark' if dark else ''}", full=True)


def test_search_sort_and_filter(page, serve):
    server = serve(1000)
    one = opened(page, server)
    one.until(LOADED)
    names = "[...document.querySelectorAll('.body .row a')].map((a) => a.innerText)"
    rows = [row for tables in server.tables.namespaces.values() for row in tables.values()]
    one.click("[data-key=small]")
    first = one.evaluate("document.querySelector('.body .row .cell:nth-child(3)').innerText")
    # But for tables that could not be looked into.
    assert int(first.replace(",", "")) > sorted(row["small_files"] for row in rows)[-20]
    assert one.evaluate("document.querySelector('[aria-sort]').innerText") == "Small files ↓"
    one.click("[data-key=small]")
    assert one.evaluate("document.querySelector('[aria-sort]').innerText") == "Small files ↑"
    one.click("input[type=search]")
    one.type("payments_apac")
    wanted = [row["name"] for row in rows if row["name"].startswith("payments_apac")]
    rows = "document.querySelector('[role=grid]').getAttribute('aria-rowcount')"
    one.until(f"{rows} === '{len(wanted) + 1}'")
    assert set(one.evaluate(names)) <= set(wanted)
    one.until(f"document.getElementById('said').innerText === '{len(wanted)} of 1,000 shown'")


def test_keyboard_alone(page, serve):
    one = opened(page, serve(1000))
    one.until(LOADED)
    one.press("Tab", 9)
    assert one.evaluate("document.activeElement.className") == "skip"
    at = "document.activeElement.closest('.row')?.dataset.at"
    for _ in range(40):
        if one.evaluate(at) is not None:
            break
        one.press("Tab", 9)
    assert one.evaluate(at) == "0"  # One stop for all rows.
    one.press("ArrowDown", 40)
    assert one.evaluate(at) == "1"
    one.press("End", 35)
    assert one.evaluate(at) == "999"
    assert one.evaluate("document.activeElement.closest('.row').getAttribute('aria-rowindex')") \
        == "1001"
    one.press("PageUp", 33)
    assert 900 < int(one.evaluate(at)) < 999
    one.press("Home", 36)
    assert one.evaluate(at) == "0"
    name = one.evaluate("document.activeElement.innerText")
    one.press("Enter", 13, "\r")
    one.until("document.querySelector('h1')?.innerText !== 'Tables'")
    one.until(f"document.querySelector('h1')?.innerText === {json.dumps(name)}")
    # The new view has the focus, and is told.
    assert one.evaluate("document.activeElement.id") == "content"
    assert name in one.text("#said")


@pytest.mark.parametrize("size", SIZES)
def test_hostile_names_are_names(page, serve, size):
    server = serve(len(HOSTILE) + 3, HOSTILE)
    one = opened(page, server, SIZES[size])
    one.until(LOADED)
    check(one, f"hostile-tables-{size}")
    elements = "main img, main script, main iframe, main svg[onload], main [onerror], main b"
    assert one.evaluate(f"document.querySelectorAll('{elements}').length") == 0
    links = one.evaluate("[...document.querySelectorAll('.body .row a')].map((a) => a.href)")
    assert all(link.startswith(server.url + "#/table/lake/") for link in links)
    shown = one.evaluate("[...document.querySelectorAll('.body .row a')].map((a) => a.textContent)")
    assert "orders\\u202egnp.exe" in shown and "\\u200borders\\u0000\\u0007" in shown
    for at, link in enumerate(links):
        one.open(link)
        one.until("document.querySelectorAll('.panel').length === 6")
        assert one.evaluate(f"document.querySelectorAll('{elements}').length") == 0
        assert one.evaluate("document.documentElement.scrollWidth <= innerWidth"), link[:200]
        # What would be pasted is what is shown.
        unseen = "\\u" in one.text("h1") or "\\u202e" in one.text(".crumb")
        assert (one.evaluate("document.querySelector('.copy') !== null")
                <= (not unseen)), link[:200]
        if at % 5 == 0:
            check(one, f"hostile-table-{at}-{size}")
    one.open(server.url + "#/jobs")
    one.until("document.querySelector('tbody tr')")
    assert not one.problems


def test_live_progress(page, serve):
    one = opened(page, serve(10), view="#/jobs")
    one.until("document.querySelector('progress[aria-label=Progress]')")
    first = one.evaluate("document.querySelector('progress[aria-label=Progress]').value")
    one.until(f"document.querySelector('progress[aria-label=Progress]').value > {first}")
    one.click("input[type=checkbox]")
    assert one.evaluate("document.querySelector('input[type=checkbox]').checked") is False


def test_the_token_is_in_memory_alone(page, serve):
    token = "secret-token-4711"
    one = opened(page, serve(10, token=token))
    one.until("document.querySelector('#token')")
    check(one, "token")
    # The browser itself says that the first request was refused.
    assert [p for p in one.problems if "401" not in p] == []
    one.problems.clear()
    assert one.evaluate("document.activeElement.id") == "token"
    one.type(token)
    one.press("Enter", 13, "\r")
    one.until(LOADED)
    stored = one.evaluate("""JSON.stringify([{...localStorage}, {...sessionStorage},
      document.cookie, location.href, history.state, document.documentElement.outerHTML])""")
    assert token not in stored
    assert not any(token in request["url"] for request in one.requests)
    sent = [request for request in one.requests
            if request["headers"].get("Authorization") == f"Bearer {token}"]
    assert sent and all("/api/v1/" in request["url"] for request in sent)
    one.open(one.evaluate("location.href") + "?again")
    one.until("document.querySelector('#token')")
    one.problems.clear()


def test_what_one_caller_saw_is_not_anothers(page, serve):
    server = serve(10, token="first")
    one = opened(page, server)
    one.until("document.querySelector('#token')")
    one.type("first")
    one.press("Enter", 13, "\r")
    one.until(LOADED)
    server.token = "second"
    old = one.evaluate("document.querySelector('.body .row a').innerText")
    server.tables = made_up.Tables(3, ["mine"])
    one.evaluate("location.hash = '#/jobs'")
    one.until("document.querySelector('#token')")
    one.type("second")
    one.press("Enter", 13, "\r")
    one.until("document.querySelector('tbody tr')")
    one.evaluate("location.hash = '#/tables'")
    one.until(LOADED)
    assert "mine" in one.text(".body") and old not in one.text(".body")
    one.problems.clear()  # The browser says that it was refused.


def test_theme(page, serve):
    one = opened(page, serve(10))
    one.until(LOADED)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = one.evaluate(ground)
    one.click("#theme")
    one.click("#theme")
    assert one.text("#theme") == "Theme: dark"
    assert one.evaluate(ground) != light
    check(one, "tables-theme-dark")


def test_printed(page, serve):
    one = opened(page, serve(200))
    one.until(LOADED)
    one.call("Emulation.setEmulatedMedia", media="print")
    one.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert one.evaluate("document.querySelectorAll('.body .row').length") == 200
    one.screenshot("tables-print", full=True)


def test_a_server_that_went_away(page, serve):
    server = serve(10)
    one = opened(page, server)
    one.until(LOADED)
    server.gone = True
    one.evaluate("location.hash = '#/plan'")
    one.until("document.querySelector('[role=alert]')")
    assert "the server does not answer" in one.text("main")
    check(one, "no-server")
    one.problems.clear()
