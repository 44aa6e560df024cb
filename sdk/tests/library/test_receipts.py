"""Receipts in the library and on the command line: read, listed, exported and verified."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client, Market
from openbell.cli import app
from support.builders.receipt_exports import A_REFUSAL, Line, a_body, a_rule, an_export, an_id, sealed, written

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})


def a_receipt(body: Line, **changes: Any) -> Line:
    receipt = {
        "id": an_id(1),
        "account_id": "a",
        "verdict": body["verdict"],
        "gate": body.get("gate", "ACCEPT"),
        "created_at": "2026-01-05T12:00:00Z",
        "receipt": body,
        **sealed(body),
    }
    return receipt | changes


REFUSED = a_receipt(a_body(a_rule(**A_REFUSAL), a_rule(code="LOT", comparison="MULTIPLE_OF", limit="5")), refusal_no=1)


class Platform:
    """Answers each path with what it has, and a list in pages of two; the first page of a chain has the heads."""

    def __init__(self, heads: Any = None, **answers: Any) -> None:
        self.heads, self.answers = heads, answers
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers[request.url.path.rpartition("/")[2]]
        if isinstance(answer, httpx.Response):
            return answer
        if isinstance(answer, list):
            start = int(request.url.params.get("next_cursor", "0"))
            following = str(start + 2) if start + 2 < len(answer) else None
            answer = {"data": answer[start : start + 2], "next_cursor": following, "last_cursor": "0"}
            if start == 0 and self.heads is not None:
                answer["heads"] = self.heads
        return httpx.Response(202 if request.method == "POST" else 200, json=answer)


def connect(monkeypatch: pytest.MonkeyPatch, platform: Platform) -> None:
    inside = Client.__init__

    def connected(self: Client, **options: Any) -> None:
        inside(self, **options, transport=httpx.MockTransport(platform))

    monkeypatch.setattr(Client, "__init__", connected)
    monkeypatch.setattr("openbell.client.session.sleep", lambda seconds: None)


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = RUN.invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stdout, result.stderr


def exported() -> tuple[Line, list[Line], list[Line]]:
    """The heads, actions and refusals of an export, as the platform answers them."""
    head, *rows = an_export()
    heads = {name: value for name, value in head.items() if name not in {"kind", "format"}}
    actions = [{name: value for name, value in row.items() if name != "kind"} for row in rows if "number" in row]
    refusals = [a_receipt(json.loads(row["text"]), refusal_no=row["refusal_no"]) for row in rows if "refusal_no" in row]
    return heads, actions, refusals


async def test_both_clients_read_receipts_page_by_page() -> None:
    heads, actions, refusals = exported()
    platform = Platform(**{an_id(1): REFUSED}, receipts=refusals, heads=heads, chain=actions)
    with Client("k", "http://x", account_id="a", transport=httpx.MockTransport(platform)) as client:
        assert client.receipt(an_id(1)).findings[0].would_pass == "at most 1000"
        assert [each.refusal_no for each in client.refusals()] == [1, 2, 3]
        assert [each.number for each in client.chained_actions()] == [1, 2, 3, 4, 5]
        assert len(list(client.receipts_of_intent("i"))) == 3
        assert client.chain().actions == 5
    seen = [(request.method, request.url.raw_path) for request in platform.requests]
    platform.requests.clear()
    async with AsyncClient("k", "http://x", account_id="a", transport=httpx.MockTransport(platform)) as client:
        assert (await client.receipt(an_id(1))).verdict == "REFUSED"
        assert [each.refusal_no async for each in client.refusals()] == [1, 2, 3]
        assert [each.number async for each in client.chained_actions()] == [1, 2, 3, 4, 5]
        assert len([each async for each in client.receipts_of_intent("i")]) == 3
        assert (await client.chain()).actions == 5
    assert [(request.method, request.url.raw_path) for request in platform.requests] == seen
    assert (b"/v1/accounts/a/receipts?limit=100&refused=true") in [path for _, path in seen]


def test_a_receipt_is_shown_with_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, Platform(**{an_id(1): REFUSED}))
    shown, _ = run("receipts", "show", an_id(1))
    for words in (
        "REFUSED",
        "CREATE BUY 10 AAPL LIMIT 187.50 DAY",
        "QTY_MAX",
        "at most 1000",
        "5000",
        "a multiple of 5",
    ):
        assert words in shown
    told, _ = run("receipts", "show", an_id(1), "--json")
    assert json.loads(told)["hash"] == REFUSED["hash"]


def test_the_receipts_of_an_intent_are_shown_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    door = a_receipt(a_body(a_rule(**A_REFUSAL), gate="DOOR"), intent_id="i", seq=1, refusal_no=1)
    connect(monkeypatch, Platform(receipts=[a_receipt(a_body(), intent_id="i", seq=1), door]))
    shown, _ = run("receipts", "show", "--intent", "i")
    assert shown.index("No rule applies to it.") < shown.index("at the door, refusal 1")


@pytest.mark.parametrize("arguments", [[], ["r", "--intent", "i"]])
def test_show_takes_a_receipt_or_an_intent(arguments: list[str]) -> None:
    _, told = run("receipts", "show", *arguments, code=2)
    assert "Pass the id of a receipt, or --intent" in told


def test_refusals_are_one_line_for_each_rule_that_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform(receipts=exported()[2])
    connect(monkeypatch, platform)
    shown, _ = run("receipts", "refusals", "another")
    header, *lines = shown.splitlines()
    assert all(word in header for word in ("when", "code", "scope", "limit", "observed", "what would pass"))
    assert [line.split()[2] for line in lines] == ["1", "2", "3"]
    assert "missing: a price" in lines[2]
    assert platform.requests[0].url.path == "/v1/accounts/another/receipts"
    told, _ = run("receipts", "refusals", "another", "--json", "--limit", "1")
    assert json.loads(told)["refusal_no"] == 1


@pytest.mark.parametrize(
    ("codes", "remedy"),
    [
        (["STALE_ORDER"], "Its deadline has passed: submit it again with a later one"),
        (["STALE_ORDER", "QTY_MAX"], "ask an admin to change the control"),
    ],
)
def test_a_deadline_that_passed_asks_for_a_later_one(
    monkeypatch: pytest.MonkeyPatch, codes: list[str], remedy: str
) -> None:
    body = a_body(a_rule(code="TICK"), *(a_rule(**A_REFUSAL | {"code": code}) for code in codes))
    problem = {"code": "controls_refused", "detail": "refused", "receipt": {"id": an_id(9), **body}}
    connect(monkeypatch, Platform(intents=httpx.Response(422, json=problem)))
    _, told = run("intents", "create", "AAPL", "BUY", "5", "--deadline", "2020-01-01T00:00:00Z", code=1)
    assert remedy in told


def test_a_refused_submit_shows_every_rule_that_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    body = a_body(
        a_rule(**A_REFUSAL), a_rule(code="TICK"), a_rule(**A_REFUSAL | {"code": "NOTIONAL_MAX", "limit": "9"})
    )
    problem = {"code": "controls_refused", "detail": "refused by QTY_MAX", "receipt": {"id": an_id(9), **body}}
    connect(monkeypatch, Platform(intents=httpx.Response(422, json=problem)))
    _, told = run("intents", "create", "AAPL", "BUY", "5000", code=1)
    lines = told.splitlines()
    assert lines[0] == "refused by QTY_MAX"
    assert [line.split()[:3] for line in lines[2:4]] == [
        ["REFUSED", "QTY_MAX", "ACCOUNT"],
        ["REFUSED", "NOTIONAL_MAX", "ACCOUNT"],
    ]
    for words in ("at most 1000", "5000", "3", "what would pass"):
        assert words in told
    assert f"Receipt: {an_id(9)}" in told
    assert "TICK" not in told
    _, told = run("intents", "create", "AAPL", "BUY", "5000", "--json", code=1)
    assert json.loads(told)["error"]["receipt"]["id"] == an_id(9)


def test_an_accepted_submit_shows_its_receipt_and_what_shadows_would_have_refused(
    monkeypatch: pytest.MonkeyPatch, record: dict[str, Any]
) -> None:
    shadow = a_rule(code="NOTIONAL_MAX", mode="SHADOW", verdict="WOULD_REFUSE", limit="9", would_pass="at most 9")
    receipt = a_receipt(a_body(a_rule(), shadow), id=record["receipt_id"])
    connect(monkeypatch, Platform(**{"intents": record, record["receipt_id"]: receipt}))
    shown, _ = run("intents", "create", "AAPL", "BUY", "10")
    assert record["receipt_id"] in shown
    assert "would refuse it if they were enforced" in shown
    assert "NOTIONAL_MAX" in shown
    assert "QTY_MAX" not in shown


def test_whoever_may_not_read_receipts_still_submits(monkeypatch: pytest.MonkeyPatch, record: dict[str, Any]) -> None:
    denied = httpx.Response(403, json={"code": "permission_denied", "detail": "no"})
    connect(monkeypatch, Platform(**{"intents": record, record["receipt_id"]: denied}))
    shown, told = run("intents", "create", "AAPL", "BUY", "10")
    assert record["receipt_id"] in shown
    assert told == ""


def test_an_export_is_written_whole_and_verifies_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    heads, actions, refusals = exported()
    later = [actions[0] | {"number": 6}], [refusals[0] | {"refusal_no": 4}]
    connect(monkeypatch, Platform(heads=heads, chain=actions + later[0], receipts=refusals + later[1]))
    file = tmp_path / "export.jsonl"
    shown, _ = run("receipts", "export", "a", "--output", str(file))
    assert "5 actions and 3 refusals" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["export.jsonl"]
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {name: value for name, value in line.items() if value is not None} for line in an_export()
    ]
    shown, _ = run("receipts", "verify", str(file))
    assert "every hash, both chains and every verdict are right" in shown
    assert f"5:{heads['chain_head']}" in shown


def test_a_tampered_export_is_code_1_and_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    lines = an_export()
    lines[2]["symbol"] = "MSFT"
    file = tmp_path / "export.jsonl"
    file.write_bytes(b"".join(written(lines)))
    shown, _ = run("receipts", "verify", str(file), code=1)
    assert f"WRONG  line 3, action 2 ({an_id(2)}): its hash is not that of its fields" in shown
    told, _ = run("receipts", "verify", str(file), "--json", code=1)
    assert (json.loads(told)["holds"], json.loads(told)["flaws"][0]["where"]) == (
        False,
        f"line 3, action 2 ({an_id(2)})",
    )


def test_heads_that_were_written_down_give_away_a_file_that_was_made_anew(tmp_path: Path) -> None:
    lines = an_export()
    file = tmp_path / "export.jsonl"
    file.write_bytes(b"".join(written(lines)))
    right = f"5:{lines[0]['chain_head']}", f"3:{lines[0]['refusal_head']}"
    run("receipts", "verify", str(file), "--chain-head", right[0], "--refusal-head", right[1])
    for wrong in (f"5:{'0' * 64}", f"1:{'0' * 64}", f"3:{lines[0]['chain_head']}", f"9:{lines[0]['chain_head']}"):
        run("receipts", "verify", str(file), "--chain-head", wrong, code=1)
    run("receipts", "verify", str(file), "--refusal-head", f"2:{lines[0]['refusal_head']}", code=1)
    run("receipts", "verify", str(file), "--refusal-head", "nonsense", code=2)


@pytest.mark.parametrize("indent", [None, 2])
def test_one_receipt_in_a_file_is_verified(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(REFUSED, indent=indent))
    assert "Its hash and every verdict are right." in run("receipts", "verify", str(file))[0]
    file.write_text(json.dumps(REFUSED | {"verdict": "PASSED"}, indent=indent))
    assert "the verdict is 'PASSED', and the text has 'REFUSED'" in run("receipts", "verify", str(file), code=1)[0]


@pytest.mark.parametrize("text", [b"", b"\n", b"\xff", b"[]", b"{", b"7\n7\n"])
def test_what_is_no_export_and_no_receipt_is_code_1(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "nothing"
    file.write_bytes(text)
    assert "WRONG" in run("receipts", "verify", str(file), code=1)[0]


EVALUATED = {"verdict": "REFUSED", "receipt": a_body(a_rule(**A_REFUSAL))}


async def test_both_clients_try_a_command_with_what_a_submit_would_carry() -> None:
    platform = Platform(evaluate=EVALUATED)
    deadline = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    options: Any = {"deadline": deadline, "allow_duplicate": True, "account_id": "b"}
    with Client("k", "http://x", account_id="a", transport=httpx.MockTransport(platform)) as client:
        tried = client.evaluate(symbol="AAPL", side="BUY", spec=Market("10"), **options)
        assert (tried.verdict, tried.findings[0].code) == ("REFUSED", "QTY_MAX")
        client.evaluate_replace("i", Market("10"))
    async with AsyncClient("k", "http://x", account_id="a", transport=httpx.MockTransport(platform)) as other:
        assert (await other.evaluate(symbol="AAPL", side="BUY", spec=Market("10"), **options)).verdict == "REFUSED"
        await other.evaluate_replace("i", Market("10"))
    bodies = [json.loads(request.content) for request in platform.requests]
    assert bodies[:2] == bodies[2:]
    assert bodies[0] == {
        "account_id": "b",
        "command": {
            "type": "CREATE",
            "payload": {"symbol": "AAPL", "order_side": "BUY", "spec": {"Market": {"quantity": "10"}}},
        },
        "deadline": "2026-01-31T09:30:00+00:00",
        "allow_duplicate": True,
    }
    assert (bodies[1]["account_id"], bodies[1]["command"]["type"]) == ("a", "REPLACE")
    assert all("idempotency-key" not in request.headers for request in platform.requests)


def test_a_dry_run_shows_every_rule_records_nothing_and_ends_as_a_submit_would(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform(evaluate=EVALUATED)
    connect(monkeypatch, platform)
    shown, _ = run("intents", "create", "AAPL", "BUY", "10", "--dry-run", "--allow-duplicate", code=1)
    for words in ("REFUSED: CREATE BUY 10 AAPL", "nothing was recorded", "QTY_MAX", "at most 1000"):
        assert words in shown
    told, _ = run("intents", "replace", an_id(1), "--quantity", "5", "--dry-run", "--json", code=1)
    assert json.loads(told)["receipt"]["rules"][0]["code"] == "QTY_MAX"
    platform.answers["evaluate"] = {"verdict": "PASSED", "receipt": a_body()}
    shown, _ = run("intents", "create", "AAPL", "BUY", "10", "--dry-run", "--deadline", "2026-01-31T09:30:00Z")
    assert "No rule applies to it." in shown
    assert {request.url.path for request in platform.requests} == {"/v1/controls/evaluate"}


@pytest.mark.parametrize("deadline", ["tomorrow", "2026-01-31T09:30:00"])
def test_a_deadline_that_is_no_moment_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, deadline: str) -> None:
    platform = Platform()
    connect(monkeypatch, platform)
    run("intents", "create", "AAPL", "BUY", "10", "--deadline", deadline, code=2)
    assert platform.requests == []
