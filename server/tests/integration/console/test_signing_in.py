"""Signing in to the console: what the provider's answer must have, and what the browser and the database receive."""

import hashlib
import re
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from support.console.served_console import PENDING, SESSION, Browser, ServedConsole, cookies_of
from support.tenancy.statements import Owner


async def test_a_user_signs_in_and_calls_the_api_as_the_person(console: ServedConsole) -> None:
    browser = console.browser()
    assert (await browser.get("/console/session")).json()["code"] == "signed_out"
    finished = await browser.sign_in("/console/blotter?state=WORKING")
    assert (finished.status_code, finished.headers["location"]) == (303, "/console/blotter?state=WORKING")
    session = (await browser.get("/console/session")).json()
    assert (session["signed_in"], session["plane"]) == (True, "tenant")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", session["expires_at"])
    me = (await browser.get("/v1/me")).json()
    assert (me["principal_type"], me["principal_id"], me["role"]) == ("USER", "maya", "admin")


async def test_the_provider_is_asked_for_a_code_with_pkce_state_and_nonce(console: ServedConsole) -> None:
    browser = console.browser()
    begun = await browser.request("GET", "/console/login", params={"login_hint": "maya@example.com"})
    address = urlsplit(begun.headers["location"])
    assert address.netloc == urlsplit(console.provider.issuer).netloc
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert asked["redirect_uri"] == f"{console.url}/console/callback"
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert (asked["scope"], asked["login_hint"]) == ("openid offline_access", "maya@example.com")
    assert all(len(asked[name]) == 43 for name in ("state", "nonce", "code_challenge"))
    again = await browser.request("GET", "/console/login")
    repeated = parse_qs(urlsplit(again.headers["location"]).query)
    assert all(repeated[name] != [asked[name]] for name in ("state", "nonce", "code_challenge"))


async def test_both_cookies_are_for_this_host_and_hidden_from_scripts(console: ServedConsole) -> None:
    browser = console.browser()
    begun = await browser.request("GET", "/console/login")
    finished = await browser.sign_in()
    for response, name in ((begun, PENDING), (finished, SESSION)):
        (line,) = [each for each in response.headers.get_list("set-cookie") if each.startswith(f"{name}=")]
        attributes = {each.strip() for each in line.split(";")[1:] if not each.strip().startswith("Max-Age=")}
        assert attributes == {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"}
    assert cookies_of(finished)[PENDING] == ""
    assert len(cookies_of(finished)[SESSION]) == 43


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"aud": "another client"},
        {"aud": ["the-console", "another client"]},
        {"azp": "another client"},
        {"iss": "https://another.example.com"},
        {"exp": 1},
        {"iat": None},
        {"sub": ""},
        {"sub": None},
    ],
    ids=str,
)
async def test_an_id_token_with_a_wrong_claim_signs_nobody_in(
    console: ServedConsole, owner: Owner, wrong: dict[str, object]
) -> None:
    console.provider.wrong = wrong
    browser = console.browser()
    refused = await browser.sign_in()
    assert (refused.status_code, SESSION in browser.cookies) == (400, False)
    assert "Sign in again" in refused.text
    assert await owner.fetchval("select count(*) from console_sessions") == 0


async def test_an_answer_to_another_sign_in_is_refused(console: ServedConsole) -> None:
    attacker, victim = console.browser(), console.browser()
    # The attacker leads the victim to the end of a sign-in as the attacker.
    address = await attacker.to_the_callback()
    assert (await victim.get(address)).status_code == 400
    await victim.to_the_callback()
    assert (await victim.get(address)).status_code == 400
    assert SESSION not in victim.cookies


@pytest.mark.parametrize("change", ["state=x", "state=", "state=é", "code=", "code=stolen"])
async def test_a_changed_answer_of_the_provider_is_refused(console: ServedConsole, change: str) -> None:
    browser = console.browser()
    address = await browser.to_the_callback()
    name = change.partition("=")[0]
    changed = re.sub(rf"{name}=[^&]*", change, address)
    assert (await browser.get(changed)).status_code == 400
    assert SESSION not in browser.cookies


async def test_a_code_is_redeemed_only_with_the_verifier_of_its_sign_in(console: ServedConsole) -> None:
    # A stolen code, put into a sign-in of the thief's own browser.
    victim, thief = console.browser(), console.browser()
    stolen = parse_qs(urlsplit(await victim.to_the_callback()).query)["code"][0]
    address = re.sub(r"code=[^&]*", f"code={stolen}", await thief.to_the_callback())
    assert (await thief.get(address)).status_code == 400
    assert SESSION not in thief.cookies


async def test_a_code_is_redeemed_once(console: ServedConsole) -> None:
    browser = console.browser()
    address = await browser.to_the_callback()
    pending = dict(browser.cookies)
    assert (await browser.get(address)).status_code == 303
    assert (await Browser(console.client, pending).get(address)).status_code == 400


@pytest.mark.parametrize(
    "then",
    [
        "https://evil.example.com/console/",
        "//evil.example.com/console/",
        "/\\evil.example.com",
        "/console//evil.example.com",
        "/console/../v1/me",
        "/console/login",
        "/console/logout?x=1",
        "/v1/me",
        "console/",
        "/console/\r\nset-cookie: a=b",
        "/console/é",
        "javascript:alert(1)",
        "/console/" + "a" * 3000,
    ],
)
async def test_a_sign_in_leads_to_no_place_outside_the_console(console: ServedConsole, then: str) -> None:
    finished = await console.browser().sign_in(then)
    assert (finished.status_code, finished.headers["location"]) == (303, "/console/")


async def test_no_answer_to_the_browser_has_a_token(console: ServedConsole) -> None:
    browser = await console.signed_in()
    for path in ("/console/session", "/console/", "/v1/me", "/v1/accounts", "/v1/nothing"):
        await browser.get(path)
    await browser.post("/console/logout")
    assert len(console.provider.issued) == 2
    for response in browser.seen:
        text = f"{response.headers}{response.text}"
        assert not [token for token in console.provider.issued if token in text]


async def test_the_database_has_neither_cookie_nor_token(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    row = await owner.fetchrow("select * from console_sessions")
    assert row is not None
    assert (row["issuer"], row["subject"]) == (console.provider.issuer, "maya")
    stored = b" ".join(each if isinstance(each, bytes) else str(each).encode() for each in row.values())
    secrets = [*console.provider.issued, browser.cookies[SESSION]]
    assert not [secret for secret in secrets if secret.encode() in stored or secret.encode().hex().encode() in stored]
    assert len(row["session_hash"]) == hashlib.sha256().digest_size


async def test_tokens_that_were_moved_to_another_session_are_not_opened(console: ServedConsole, owner: Owner) -> None:
    maya = await console.signed_in()
    console.provider.subject = "mallory"
    mallory = await console.signed_in()
    await owner.execute(
        "update console_sessions set sealed_tokens ="
        " (select sealed_tokens from console_sessions where subject = 'maya') where subject = 'mallory'"
    )
    assert (await mallory.get("/v1/me")).status_code == 401
    assert (await maya.get("/v1/me")).status_code == 200


async def test_a_second_sign_in_replaces_the_session_of_the_browser(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    first = Browser(console.client, dict(browser.cookies))
    await browser.sign_in()
    assert browser.cookies[SESSION] != first.cookies[SESSION]
    assert (await first.get("/console/session")).status_code == 401
    assert await owner.fetchval("select count(*) from console_sessions") == 1


async def test_a_user_has_fifty_sessions_at_most(console: ServedConsole, owner: Owner) -> None:
    oldest = await console.signed_in()
    for _ in range(50):
        await console.signed_in()
    assert await owner.fetchval("select count(*) from console_sessions") == 50
    assert (await oldest.get("/console/session")).status_code == 401


async def test_a_provider_that_does_not_answer_is_a_page_that_says_so(console: ServedConsole) -> None:
    browser = console.browser()
    address = await browser.to_the_callback()
    console.provider.is_away = True
    failed = await browser.get(address)
    assert (failed.status_code, SESSION in browser.cookies) == (503, False)
    assert "did not answer" in failed.text


async def test_the_login_of_the_console_reads_no_other_table(login_url: str, owner: Owner) -> None:
    tables = [row[0] for row in await owner.fetch("select tablename from pg_tables where schemaname = 'openbell'")]
    assert len(tables) > 30
    connection = await asyncpg.connect(login_url, timeout=60)
    try:
        for role in ("none", "openbell_console"):
            await connection.execute(f"set role {role}")
            may = []
            for table in tables:
                try:
                    await connection.fetch(f"select 1 from openbell.{table}")
                    may.append(table)
                except asyncpg.InsufficientPrivilegeError:
                    continue
            assert may == (["console_sessions"] if role == "openbell_console" else [])
    finally:
        await connection.close()
