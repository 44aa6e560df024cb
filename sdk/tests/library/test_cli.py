"""The command line: what it prints, what it sends, and how it ends."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AccountChanged, Client, Event, IntentAction, Reason
from openbell.cli import app, main

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})
INTENT = "0192f0c1-0000-7000-8000-000000000001"


class Platform:
    """What the commands talk to."""

    def __init__(self) -> None:
        self.answers: list[httpx.Response | BaseException] = []
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    platform = Platform()
    inside = Client.__init__

    def connected(self: Client, **options: Any) -> None:
        inside(self, **options, transport=httpx.MockTransport(platform))

    monkeypatch.setattr(Client, "__init__", connected)
    monkeypatch.setattr("openbell.client.session.sleep", lambda seconds: None)
    return platform


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = RUN.invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stdout, result.stderr


def sent(platform: Platform) -> dict[str, Any]:
    command: dict[str, Any] = json.loads(platform.requests[0].content)["command"]["payload"]
    return command


def test_create_shows_the_recorded_order(platform: Platform, record: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(202, json=record)]
    out, err = run("intents", "create", "AAPL", "buy", "10", "--key", "k-1", "--reference", "mine")
    assert sent(platform) == {"symbol": "AAPL", "order_side": "BUY", "spec": {"Market": {"quantity": "10"}}}
    assert platform.requests[0].headers["idempotency-key"] == "k-1"
    assert platform.requests[0].headers["x-api-key"] == "key-1"
    assert INTENT in out
    assert "BUY 10.00 AAPL LIMIT 187.50 DAY" in out
    assert "4.10 at 187.123456789012345678, 5.90 open" in out
    assert "\x1b" not in out
    assert err == ""


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (["--limit", "5"], {"Limit": {"quantity": "1", "price": "5"}}),
        (["--stop", "5"], {"Stop": {"quantity": "1", "stop_price": "5"}}),
        (["--stop", "5", "--limit", "4"], {"StopLimit": {"quantity": "1", "stop_price": "5", "price": "4"}}),
        (["--time-in-force", "fill_or_kill"], {"Market": {"quantity": "1", "time_in_force": "FILL_OR_KILL"}}),
    ],
)
def test_the_prices_given_decide_the_kind(
    platform: Platform, record: dict[str, Any], options: list[str], spec: dict[str, Any]
) -> None:
    platform.answers = [httpx.Response(202, json=record)]
    run("intents", "create", "AAPL", "SELL_SHORT", "1", *options)
    assert sent(platform)["spec"] == spec
    assert sent(platform)["order_side"] == "SELL_SHORT"


def test_a_deadline_and_a_meant_duplicate_are_sent_and_a_time_without_an_offset_is_not(
    platform: Platform, record: dict[str, Any]
) -> None:
    platform.answers = [httpx.Response(202, json=record)]
    run("intents", "create", "AAPL", "BUY", "1", "--deadline", "2026-03-06T21:00:00Z", "--allow-duplicate")
    body = json.loads(platform.requests[0].content)
    assert (body["deadline"], body["allow_duplicate"]) == ("2026-03-06T21:00:00+00:00", True)
    _, err = run("intents", "replace", INTENT, "--quantity", "1", "--deadline", "2026-03-06T21:00:00", code=2)
    assert "--deadline must be a time with an offset" in err


def test_json_is_one_object_per_line(platform: Platform, record: dict[str, Any]) -> None:
    page = {"data": [record, record | {"seq": 2}], "next_cursor": None, "last_cursor": None}
    platform.answers = [httpx.Response(200, json=page)]
    out, _ = run("intents", "list", "--json")
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [1, 2]
    platform.answers = [httpx.Response(200, json=record)]
    out, _ = run("intents", "show", INTENT, "--json")
    assert json.loads(out) == record


@pytest.mark.parametrize(
    "words",
    [
        ["intents", "show", "123"],
        ["intents", "cancel", "123"],
        ["orders", "list", "--intent", "123"],
        ["orders", "cancel", INTENT, "123", "--access-token", "t"],
    ],
)
def test_a_wrong_intent_id_is_named_with_an_example_and_nothing_is_sent(platform: Platform, words: list[str]) -> None:
    _, err = run(*words, code=2)
    assert "123 is not an intent id. An id looks like 0192f0c1-" in err
    assert platform.requests == []


@pytest.mark.parametrize("quantity", ["-5", "-0.5"])
def test_a_negative_quantity_is_refused_as_a_quantity_and_nothing_is_sent(platform: Platform, quantity: str) -> None:
    _, err = run("intents", "create", "AAPL", "BUY", quantity, "--limit", "5", code=2)
    assert f"quantity must be greater than zero, not {quantity}." in err
    assert platform.requests == []


def test_an_option_that_does_not_exist_is_still_refused(platform: Platform) -> None:
    _, err = run("intents", "create", "AAPL", "BUY", "5", "--limt", "5", code=2)
    assert "No such option: --limt" in err
    _, err = run("intents", "create", "AAPL", "BUY", "-5", "--limt", "5", code=2)
    assert "--limt" in err
    assert platform.requests == []


def test_errors_and_removals_have_the_json_of_records(platform: Platform) -> None:
    platform.answers = [httpx.Response(204)]
    out, _ = run("controls", "rules", "remove", "QTY_MAX", "--json")
    assert out == '{"code":"QTY_MAX","removed":true}\n'
    platform.answers = [httpx.Response(404, json={"code": "not_found", "detail": "kein Konto für dich"})]
    _, err = run("intents", "show", INTENT, "--json", code=1)
    assert err.startswith('{"error":{"kind":"NotFound","code":"not_found","message":"kein Konto für dich"')


def test_list_shows_whole_ids_and_reasons_in_a_pipe(platform: Platform, record: dict[str, Any]) -> None:
    refused = record | {"status": "REFUSED", "reason": {"code": "BROKER_REFUSED", "broker_text": "[b]no\x1b[2J"}}
    platform.answers = [httpx.Response(200, json={"data": [refused], "next_cursor": None, "last_cursor": None})]
    out, _ = run("intents", "list")
    assert INTENT in out
    assert "REFUSED (BROKER_REFUSED [b]no\N{REPLACEMENT CHARACTER}[2J)" in out


def test_list_asks_for_some_and_shows_no_more_than_the_limit(platform: Platform, record: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(200, json={"data": [record] * 3, "next_cursor": None, "last_cursor": None})]
    options = ("--symbol", "AAPL", "--type", "create", "--reference", "r", "--limit", "2", "--json")
    out, _ = run("intents", "list", *options)
    assert len(out.splitlines()) == 2
    asked = dict(platform.requests[0].url.params)
    filters = {"symbol": "AAPL", "action_type": "CREATE", "client_reference_id": "r"}
    assert asked == {"limit": "100", "order": "desc", **filters}


def test_stats_shows_what_is_there(platform: Platform, statistics: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(200, json=statistics)]
    out, _ = run("intents", "stats", "--window", "last_week")
    assert platform.requests[0].url.params["time_window"] == "last_week"
    for told in ("CREATE 2, CANCEL 1", "BUY 3", "QUEUED 1, ACKED 2", "AAPL 3", "p50 13.5 ms, p95 32 ms"):
        assert told in out
    as_json, _ = run("intents", "stats", "--json")
    assert json.loads(as_json) == statistics


def test_show_gives_the_evidence_of_an_unknown_outcome(platform: Platform, record: dict[str, Any]) -> None:
    record["execution"] |= {
        "status": "UNKNOWN",
        "certainty": "UNKNOWN",
        "unknown": {
            "since": "2026-11-02T14:30:05Z",
            "probes": [{"at": "2026-11-02T14:30:06Z", "found": False}],
            "writes": 2,
            "flagged_at": "2026-11-02T14:30:25Z",
            "settles_by": "the broker's evidence",
        },
    }
    platform.answers = [httpx.Response(200, json=record | {"status": "UNKNOWN"})]
    out, _ = run("intents", "show", INTENT)
    assert "UNKNOWN: it is not known yet whether it reached the broker" in " ".join(out.split())
    assert "needs attention since 2026-11-02 14:30:25Z" in " ".join(out.split())
    assert "written 2 times, with the same id" in " ".join(out.split())
    assert "unknown since 2026-11-02 14:30:05Z" in " ".join(out.split())
    assert "found: nothing" in out
    assert "the broker's evidence" in out


@pytest.mark.parametrize("option", ["--limit", "--price"])
def test_replace_names_the_intent_and_its_new_spec(platform: Platform, record: dict[str, Any], option: str) -> None:
    platform.answers = [httpx.Response(202, json=record | {"action_type": "REPLACE", "seq": 2})]
    out, _ = run("intents", "replace", INTENT, "--quantity", "12", option, "188.00", "--time-in-force", "EXT")
    spec = {"Limit": {"price": "188.00", "quantity": "12", "time_in_force": "EXT"}}
    assert sent(platform) == {"ref_intent_id": INTENT, "spec": spec}
    assert "2 REPLACE" in out


def test_cancel_names_the_intent(platform: Platform, record: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(202, json=record | {"action_type": "CANCEL", "seq": 2})]
    out, _ = run("intents", "cancel", INTENT)
    assert sent(platform) == {"ref_intent_id": INTENT}
    assert "2 CANCEL" in out


def test_a_refusal_is_three_lines_and_code_1(platform: Platform) -> None:
    problem = {"code": "account_disabled", "detail": "The account is disabled.", "request_id": "r-1"}
    platform.answers = [httpx.Response(409, json=problem)]
    out, err = run("intents", "create", "AAPL", "BUY", "10", code=1)
    assert out == ""
    assert err.splitlines() == [
        "The account is disabled.",
        "Enable the account; cancelling works meanwhile.",
        "Request id: r-1",
    ]


@pytest.mark.parametrize(("code", "says"), [("account_not_ready", "credential"), ("account_closed", "another account")])
def test_a_refusal_about_the_account_sends_nobody_to_an_intent(platform: Platform, code: str, says: str) -> None:
    platform.answers = [httpx.Response(409, json={"code": code, "detail": "No.", "request_id": "r-1"})]
    _, err = run("intents", "create", "AAPL", "BUY", "10", code=1)
    assert says in err.splitlines()[1]


def test_a_lost_reply_is_code_3_and_tells_the_key(platform: Platform) -> None:
    platform.answers = [httpx.ReadTimeout("slow")]
    _, err = run("intents", "create", "AAPL", "BUY", "10", code=3)
    key = platform.requests[0].headers["idempotency-key"]
    assert "not known whether the command was recorded" in err
    assert f"Run the same command again with --key {key}" in err


def test_an_interrupted_submit_tells_the_key(platform: Platform) -> None:
    platform.answers = [KeyboardInterrupt()]
    _, err = run("intents", "cancel", INTENT, "--key", "k-1", code=3)
    assert "--key k-1" in err


def test_an_unreachable_platform_is_code_3(platform: Platform) -> None:
    platform.answers = [httpx.ConnectError("refused")]
    _, err = run("intents", "list", code=3)
    assert "cannot be reached at http://127.0.0.1:8080: refused" in err


def test_errors_are_json_where_the_output_is(platform: Platform) -> None:
    platform.answers = [httpx.Response(404, json={"code": "not_found", "detail": "no such", "request_id": "r-2"})]
    out, err = run("intents", "show", INTENT, "--json", code=1)
    assert out == ""
    error = json.loads(err)["error"]
    assert (error["kind"], error["code"], error["request_id"]) == ("NotFound", "not_found", "r-2")


@pytest.mark.parametrize(
    "arguments",
    [
        ["intents", "create", "AAPL", "LONG", "10"],
        ["intents", "create", "AAPL", "BUY", "1e5"],
        ["intents", "create", "AAPL", "BUY", "10", "--key", ""],
        ["intents", "create", "AAPL", "BUY", "10", "--account", "", "--url", "nonsense"],
        ["intents", "nothing"],
    ],
)
def test_wrong_usage_is_code_2_and_sends_nothing(platform: Platform, arguments: list[str]) -> None:
    run(*arguments, code=2)
    assert platform.requests == []


def test_a_missing_key_says_how_to_give_it() -> None:
    result = CliRunner().invoke(app, ["intents", "list"])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == ["No API key was given.", "Pass --api-key, or set OPENBELL_API_KEY."]


@pytest.mark.parametrize(("state", "code"), [("FILLED", 0), ("CANCELED", 0), ("REJECTED", 1), ("SKIPPED", 1)])
def test_wait_ends_with_the_order(platform: Platform, record: dict[str, Any], state: str, code: int) -> None:
    ended = record | {"execution": record["execution"] | {"status": state}}
    platform.answers = [httpx.Response(202, json=record), httpx.Response(200, json=ended)]
    out, _ = run("intents", "create", "AAPL", "BUY", "10", "--wait", "--json", code=code)
    assert json.loads(out)["execution"]["status"] == state


def test_a_wait_that_gives_up_still_shows_the_intent(platform: Platform, record: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(202, json=record), httpx.Response(200, json=record)]
    out, err = run("intents", "create", "AAPL", "BUY", "10", "--wait", "--wait-seconds", "0", "--json", code=3)
    assert json.loads(out)["intent_id"] == INTENT
    assert "still PARTIALLY_FILLED" in json.loads(err)["error"]["message"]


@pytest.fixture
def streaming(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Two events, then Ctrl-C; gives the tokens that were asked for."""
    asked: list[str | None] = []
    action = IntentAction(action_id="x", intent_id=INTENT, seq=1, action_type="CREATE", status="QUEUED")

    def events(self: Client, resume_token: str | None = None, **options: object) -> Iterator[Event]:
        asked.append(resume_token)
        for seq in (8, 9):
            yield Event(
                account_id="a",
                account_seq=seq,
                prev_seq=seq - 1,
                resume_token=f"t{seq}",
                occurred_at=datetime(2026, 11, 2, 14, 30, tzinfo=UTC),
                intent_action=action,
            )
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "events", events)
    return asked


def test_tail_prints_events_and_how_to_go_on(streaming: list[str | None]) -> None:
    out, err = run("events", "tail", "--from", "t7")
    assert streaming == ["t7"]
    assert len(out.splitlines()) == 2
    assert INTENT in out
    assert "openbell events tail --from t9" in err


def test_tail_shows_a_changed_account_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = AccountChanged(
        changed=("credential_status",),
        version=4,
        credential_status="EXPIRED",
        expires_at=datetime(2026, 11, 2, 14, 30, tzinfo=UTC),
        reason=Reason(code="CREDENTIAL_EXPIRED"),
    )

    def events(self: Client, resume_token: str | None = None, **options: object) -> Iterator[Event]:
        del self, resume_token
        yield Event(
            account_id="a",
            account_seq=3,
            prev_seq=2,
            resume_token="t3",
            occurred_at=datetime(2026, 11, 2, 14, 30, tzinfo=UTC),
            account_changed=changed,
        )

    monkeypatch.setattr(Client, "events", events)
    out, _ = run("events", "tail")
    assert " ".join(out.split()) == (
        "3 2026-11-02 14:30:00Z account credential_status version 4"
        " credential EXPIRED (CREDENTIAL_EXPIRED) expires 2026-11-02 14:30:00Z"
    )


def test_tail_as_json_carries_the_tokens(streaming: list[str | None]) -> None:
    out, _ = run("events", "tail", "--json")
    assert streaming == [None]
    assert [json.loads(line)["resume_token"] for line in out.splitlines()] == ["t8", "t9"]


def test_a_defect_of_ours_is_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr("openbell.cli.app", broken)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 3
    assert "openbell itself failed: RuntimeError: inside" in capsys.readouterr().err
