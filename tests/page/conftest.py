"""Fixtures of the page's tests: one browser for all of them, and pages in it."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "e2e"))

import browser as browsers  # noqa: E402
import made_up  # noqa: E402


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    started = browsers.Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def page(browser):
    """Opens pages; in the end none has complained, and none has asked anybody but its server."""
    opened = []

    def make(size=browsers.WIDE, dark=False):
        opened.append(browser.page(size, dark))
        return opened[-1]

    yield make
    for one in opened:
        one.evaluate("1")  # What was heard until now.
        problems, requests = one.problems, one.requests
        one.close()
        assert not problems
        outside = [r["url"] for r in requests
                   if not r["url"].startswith(("http://127.0.0.1:", "data:", "file:"))]
        assert not outside


@pytest.fixture
def serve():
    servers = []

    def make(count, hostile=(), token=None):
        servers.append(made_up.MadeUp(made_up.Tables(count, hostile), token))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()
