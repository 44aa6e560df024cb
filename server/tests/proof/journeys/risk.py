"""A risk manager: limits at two scopes, a refusal, a back-test, a halt with its report, and a verified export."""

from proof.journeys.steps import Step

_ENTER = """
export PATH="$PWD/.venv/bin:$PATH" && . .openbell/dev.env
export TOKEN=$(openbell-server tokens mint --user you --organization org_acme --role admin)
export OPENBELL_ACCOUNT=$(OPENBELL_ACCESS_TOKEN=$TOKEN openbell accounts create Desk --json \
  | python -c 'import json, sys; print(json.load(sys.stdin)["id"])')
openbell intents create AAPL BUY 10 --wait
openbell intents create AAPL BUY 1 --limit 187.50
"""
_TAMPER = "openbell receipts verify tampered.jsonl"

STEPS = (
    Step("an account with a position and a resting order", _ENTER, ("FILLED",)),
    Step(
        "a limit at the account",
        "openbell controls rules set QTY_MAX --quantity 100 --reason 'fat fingers'",
        ("QTY_MAX",),
    ),
    Step(
        "a limit at a symbol",
        "openbell controls rules set POSITION_MAX --quantity 120 --symbol AAPL --reason concentration",
        ("POSITION_MAX",),
    ),
    Step("what is in force", "openbell controls effective", ("QTY_MAX", "POSITION_MAX")),
    Step(
        "a refusal names what would pass",
        "openbell intents create AAPL BUY 5000",
        ("refused by .*QTY_MAX", "a quantity of at most 100"),
        1,
    ),
    Step(
        "a back-test before a rule is set",
        """echo '[{"scope": "ACCOUNT", "code": "QTY_MAX", "parameters": {"quantity": "5"}}]' > rules.json
openbell controls backtest --rules rules.json --since 1h""",
        ("would have refused 2 of",),
    ),
    Step(
        "a rule in shadow mode lets the order pass and records it",
        "openbell controls rules set NOTIONAL_MAX --value 1 --currency USD --mode shadow --reason trial\n"
        "openbell intents create AAPL BUY 1 --wait",
        ("NOTIONAL_MAX", "FILLED"),
    ),
    Step(
        "the same rule, hard, refuses it",
        "openbell controls rules set NOTIONAL_MAX --value 1 --currency USD --mode hard --reason decided\n"
        "openbell intents create AAPL BUY 1",
        ("refused by NOTIONAL_MAX",),
        1,
    ),
    Step("a halt that cancels working orders", "openbell halt --reason 'runaway bot' --cancel-working", ("HALTED",)),
    Step(
        "its report",
        "until openbell halt-report --last | tee report.txt | grep 'no working orders *yes'; do sleep 1; done\n"
        "cat report.txt",
        ("doors opened after 0", "1 confirmed"),
    ),
    Step("a key cannot resume", "openbell resume --reason fixed", ("(?i)admin",), 1),
    Step("an admin resumes", "OPENBELL_ACCESS_TOKEN=$TOKEN openbell resume --reason fixed", ("(?i)resumed|ACTIVE",)),
    Step("the report is still there", "openbell halt-report --last", ("runaway bot", "doors opened after 0")),
    Step("an export", "openbell receipts export --output decisions.jsonl", ("chain head",)),
    Step("it is verified", "openbell receipts verify decisions.jsonl", ("every hash",)),
    Step(
        "a changed digit is found",
        'sed \'$ s/\\\\"5000\\\\"/\\\\"5001\\\\"/; s/5000/5001/\' decisions.jsonl > tampered.jsonl\n'
        f"! cmp -s decisions.jsonl tampered.jsonl\n{_TAMPER}",
        ("WRONG",),
        1,
    ),
    Step("a removed line is found", f"sed 2d decisions.jsonl > tampered.jsonl\n{_TAMPER}", ("WRONG",), 1),
    Step("a removed last line is found", f"sed '$d' decisions.jsonl > tampered.jsonl\n{_TAMPER}", ("WRONG",), 1),
)
