"""The console in a browser: sizes, pictures, accessibility, policy, roles, live rows, cuts, and what it costs."""

import asyncio
import contextlib
import gzip
import logging
import re
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import structlog

from openbell import Client, Invalid, Limit
from openbell_server.devtools import console_build
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_services import LocalServices
from proof.figures import Figures
from proof.long_history import rest_database
from proof.organization_lists import an_organization_with_orders
from support.environment.console_stage import CHROMIUM, CONSOLE, ConsoleStage, console_stage
from support.environment.doc_blocks import ROOT
from support.environment.front_door import run
from support.rest.faulty_api import FAULTS

ARTIFACTS = ROOT / "build/proof/console"
KILO = 1024
SCRIPT_MAX, FIRST_SCRIPT_MAX, STYLE_MAX, FONT_MAX = 150 * KILO, 70 * KILO, 15 * KILO, 100 * KILO
ROW_MILLIS_MAX = 500
SCRIPT_MILLIS_MAX = 6
PAGE_MILLIS_MAX = 100
READS = 40
ANSWER_SECONDS_MAX = 10.0
CALLS_A_SECOND_MAX = 5.0
BUILD_SECONDS = 300
WAIT_SECONDS = 60
SYMBOLS = ("AAPL", "MSFT", "NVDA", "SPY", "QQQ")
Screens = list[dict[str, str]]
BOTH_THEMES, BOTH_WIDTHS = ("dark", "light"), ("wide", "phone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    orders: int
    cuts: int
    users: int
    crowd_seconds: int
    stored_orders: int


SIZES = {
    "full": Size(orders=200, cuts=20, users=12, crowd_seconds=30, stored_orders=100_000),
    "gate": Size(orders=10, cuts=5, users=3, crowd_seconds=5, stored_orders=1_000),
}


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    run(["make", "--no-print-directory", "console"], ROOT, BUILD_SECONDS)
    _sizes(figures)
    _wheel(figures)
    assert CHROMIUM, "the console is measured in Debian's Chromium: apt-get install chromium"
    with tempfile.TemporaryDirectory() as folder, console_stage(Path(folder), ARTIFACTS, accounts=3) as stage:
        _states(figures, stage, "empty-")
        _live(figures, stage, size)
        _crowd(figures, stage, size)
        screens = screens_of(_populate(stage))
        _screens(figures, stage, screens)
        _states(figures, stage, "failing-", down=True)
        _roles(figures, stage, screens)
        _forgery(figures, stage)
        _scroll(figures, stage)
        _journeys(figures, stage)
    # The application runs in this process; a line per request would hide the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with LocalServices() as services:
        asyncio.run(_pages(figures, services, size))


async def _pages(figures: Figures, services: LocalServices, size: Size) -> None:
    """The page with which the blotter begins, and that of each of its filters, as the api answers them."""
    url = services.postgres.url("console_pages")
    async with rest_database(services, "console_pages", "head") as (pool, api):
        lists = await an_organization_with_orders(url, pool, api, size.stored_orders)
        for what, query in lists.queries():
            if what != "orders":
                continue
            seconds = []
            for _ in range(READS):
                begun = time.perf_counter()
                answer = await lists.read(what, query | {"limit": "100"})
                seconds.append(time.perf_counter() - begun)
                assert answer.status_code == httpx.codes.OK, answer.text
            slowest = round(sorted(seconds)[int(READS * 0.95)] * 1000, 1)
            name = f"{size.stored_orders} orders: milliseconds of a page, {_words(query) or 'all'}, p95"
            if figures.size == "full":
                figures.at_most(name, slowest, PAGE_MILLIS_MAX)
            else:
                figures.shown(name, slowest)


def _words(query: dict[str, str]) -> str:
    return " ".join("of an account" if name == "account_id" else value for name, value in query.items())


def _sizes(figures: Figures) -> None:
    """Of the built files, as a browser receives them."""
    assets = console_build.BUILT / "assets"
    scripts = {file.name: len(gzip.compress(file.read_bytes(), 9)) for file in assets.glob("*.js")}
    page = (console_build.BUILT / "index.html").read_text()
    first = sum(size for name, size in scripts.items() if name in page)
    figures.at_most("bytes of JavaScript, gzipped", sum(scripts.values()), SCRIPT_MAX)
    figures.at_most("bytes of JavaScript before the first screen, gzipped", first, FIRST_SCRIPT_MAX)
    styles = sum(len(gzip.compress(file.read_bytes(), 9)) for file in assets.glob("*.css"))
    figures.at_most("bytes of CSS, gzipped", styles, STYLE_MAX)
    figures.at_most("bytes of fonts", sum(file.stat().st_size for file in assets.glob("*.woff2")), FONT_MAX)


def _wheel(figures: Figures) -> None:
    """The wheel serves the pages where there is no Node."""
    run(["make", "--no-print-directory", "wheels"], ROOT, BUILD_SECONDS)
    (wheel,) = (ROOT / "build/wheels").glob("openbell_server-*.whl")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import openbell_server;"
        " from openbell_server.transport.console.pages import built_pages;"
        " print(openbell_server.__file__.startswith(sys.argv[1]) and built_pages().is_built)"
    )
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        printed = run([sys.executable, "-c", program, folder], Path(folder), BUILD_SECONDS, {"PATH": folder})
        assets = Path(folder, "openbell_server/transport/console/static/assets")
        shipped = {file.name: file.read_bytes() for file in assets.iterdir()}
    built = {file.name: file.read_bytes() for file in (console_build.BUILT / "assets").iterdir()}
    figures.exactly("wheels that serve the pages without Node", int(printed.strip() == "True"), 1)
    figures.exactly("built files that the wheel lacks or has otherwise", len(built.items() - shipped.items()), 0)


def _live(figures: Figures, stage: ConsoleStage, size: Size) -> None:
    faults = [FAULTS[number % len(FAULTS)] for number in range(size.cuts)]
    found = stage.measure("live", orders=size.orders, faults=faults, between=5)
    figures.exactly("orders that became rows", found["orders"], size.orders)
    figures.shown("milliseconds from the 202 to the row, p50", round(found["p50"], 1))
    if figures.size == "full":
        figures.at_most("milliseconds from the 202 to the row, p95", round(found["p95"], 1), ROW_MILLIS_MAX)
    figures.exactly("cuts of the stream", sum(stage.faulty.cuts.values()), size.cuts)
    figures.shown("events that the browser received", found["cut"]["after"])
    figures.exactly("gaps in the events after cuts", found["cut"]["gaps"], 0)
    figures.exactly("orders placed during cuts that did not become rows", found["cut"]["missing"], 0)
    figures.exactly("events that came twice after cuts", found["cut"]["twice"], 0)


def _crowd(figures: Figures, stage: ConsoleStage, size: Size) -> None:
    accounts = stage.settings["accounts"]
    paths = ["/orders", "/", f"/orders?account={accounts[0]}"]
    found = stage.measure("crowd", users=size.users, seconds=size.crowd_seconds, rate=20, paths=paths)
    rate = round(found["total"] / found["seconds"], 2)
    figures.shown("fills a second while consoles are open", round(found["sent"] / found["seconds"], 1))
    figures.at_most(f"calls of the api a second by {size.users} open consoles together", rate, CALLS_A_SECOND_MAX)
    figures.exactly("open consoles without events", sum(not each for each in found["events"]), 0)


def _screens(figures: Figures, stage: ConsoleStage, screens: Screens) -> None:
    """With data, and for a role that may only read."""
    found = stage.measure("screens", screens=screens, themes=BOTH_THEMES, sizes=BOTH_WIDTHS, role="admin", blotter=True)
    reading = stage.measure(
        "screens", screens=screens, themes=["dark"], sizes=["wide"], role="read_only", prefix="reader-"
    )
    figures.shown("screens", found["screens"])
    figures.shown("pictures", found["pictures"] + reading["pictures"])
    for name, what in (
        ("violations of accessibility rules", "accessibility"),
        ("violations of the policy of the pages", "policy"),
        ("requests to other origins", "elsewhere"),
        ("responses with a token", "tokens"),
        ("screens that keep a token or show one", "storage"),
        ("screens wider than the window", "reflow"),
        ("errors in the browser's console", "errors"),
    ):
        figures.exactly(name, _count([*found[what], *reading[what]]), 0)


def _populate(stage: ConsoleStage) -> dict[str, str]:
    """Orders of every state, a refusal, a rule and a halt; ids for the paths of the pages."""
    account, halted, silent = stage.settings["accounts"]
    with Client(stage.settings["key"], stage.settings["api"], account_id=account) as client:
        filled = [client.buy(symbol, 10 * number) for number, symbol in enumerate(SYMBOLS, 1)]
        for intent in filled:
            client.wait(intent.intent_id, WAIT_SECONDS)
        client.sell(SYMBOLS[1], 5)
        client.sell(SYMBOLS[2], Limit("7", price="9999.5"))
        canceled, _ = client.buy("MSFT", Limit(25, price="0.5")), client.buy("AAPL", Limit("12", price="0.25"))
        client.cancel_intent(canceled.intent_id)
        client.set_rule("QTY_MAX", {"quantity": "100"}, reason="fat fingers")
        with contextlib.suppress(Invalid):
            client.buy("TSLA", 500)
        (receipt, *_) = [each.id for each in client.refusals()]
        client.set_switch("HALTED", account_id=halted, reason="runaway strategy")
        report = next(iter(client.halt_reports(halted))).id
        # The broker never answers the cancel.
        client.set_fault_plan({"cancel_hang": 1}, seed=1, account_id=silent)
        unknown = client.buy("SPY", Limit("3", price="0.5"), account_id=silent)
        client.cancel_intent(unknown.intent_id, account_id=silent)
        assert wait_until(lambda: any(client.orders(account_id=silent, certainty="UNKNOWN")), WAIT_SECONDS)
    ids = {"account": account, "intent": filled[0].intent_id, "receipt": receipt, "unknown": unknown.intent_id}
    return {**ids, "halted": halted, "report": report, "silent": silent}


def screens_of(ids: dict[str, str]) -> list[dict[str, str]]:
    """Every path of the pages, with an account, an intent and a receipt that exist."""
    paths = re.findall(r'path: "(/[^"]*)"', (CONSOLE / "src/shell/screens.ts").read_text())
    of_halted = ids | {"account": ids["halted"]}
    screens = [
        {"name": _name(path), "path": path.format(**(of_halted if "{report}" in path else ids))} for path in paths
    ]
    return [*screens, {"name": "intent-unknown", "path": f"/accounts/{ids['silent']}/intents/{ids['unknown']}"}]


def _name(path: str) -> str:
    """Of a screen: the last word of its path; of one that shows one object, without the plural."""
    words = [word for word in path.split("/") if word]
    if not words:
        return "home"
    return words[-1] if "{" not in words[-1] else words[-2].removesuffix("s")


def _states(figures: Figures, stage: ConsoleStage, prefix: str, *, down: bool = False) -> None:
    """Before there is an order, or while the api answers only what the frame of every page reads."""
    paths = re.findall(r'path: "(/[^"{]*)"', (CONSOLE / "src/shell/screens.ts").read_text())
    screens = [{"name": _name(path), "path": path} for path in paths]
    found = stage.measure(
        "screens", screens=screens, themes=["dark"], sizes=["wide"], role="admin", prefix=prefix, down=down
    )
    figures.shown(f"{prefix.rstrip('-')} pages: pictures", found["pictures"])
    figures.exactly(f"{prefix.rstrip('-')} pages: violations of accessibility rules", _count(found["accessibility"]), 0)
    figures.exactly(f"{prefix.rstrip('-')} pages: violations of the policy of the pages", _count(found["policy"]), 0)


def _roles(figures: Figures, stage: ConsoleStage, screens: Screens) -> None:
    found = stage.measure("roles", screens=screens, roles=["admin", "member", "read_only"])
    figures.at_least("buttons and forms compared with the operations of the role", found["compared"], 10)
    figures.exactly("enabled although the role may not", _count(found["wrong"]), 0)
    figures.exactly("refused without a sentence why", _count(found["unexplained"]), 0)


def _forgery(figures: Figures, stage: ConsoleStage) -> None:
    found = stage.measure("forgery")
    figures.at_least("changes tried from other origins", found["made"], 8)
    figures.exactly("of these not refused", found["passed"], 0)
    figures.exactly("status of a change without the header", found["without"], 403)
    figures.exactly("status of the session afterwards", found["session"], 200)


def _scroll(figures: Figures, stage: ConsoleStage) -> None:
    found = stage.measure("scroll", frames=60)
    first, ready = zip(*found["paints"], strict=True)
    figures.shown("milliseconds to the first paint, worst of 5", round(max(first)))
    figures.shown("milliseconds to the rows, worst of 5", round(max(ready)))
    figures.at_most("CPU milliseconds of script a frame while scrolling", round(found["script"], 2), SCRIPT_MILLIS_MAX)
    figures.shown("CPU milliseconds of the main thread a frame while scrolling", round(found["task"], 2))


def _journeys(figures: Figures, stage: ConsoleStage) -> None:
    found = stage.measure("journeys", name="Paper 1")
    if figures.size == "full":
        seconds = round(found["seconds"], 1)
        figures.at_most("seconds from signing in to what each of the three looks for", seconds, ANSWER_SECONDS_MAX)
    figures.at_least("journeys with the keyboard alone", len(found["done"]), 4)
    figures.exactly("journeys that failed", _count(found["failed"]), 0)


def _count(findings: Sequence[Any]) -> int:
    """How many; the first of them are printed, so that they can be traced."""
    for each in findings[:10]:
        print(each, flush=True)
    return len(findings)
