"""A developer: a first fill four ways, retries, typical mistakes, following with a cut, and a bot that is killed."""

from proof.journeys.steps import Step
from support.environment.doc_blocks import blocks

_ENTER = 'export PATH="$PWD/.venv/bin:$PATH" && . .openbell/dev.env'
_CURL = next(block.text for block in blocks("README.md") if "curl " in block.text and block.tag == "bash")
_QUICKSTART = [block.text for block in blocks("docs/quickstart.md") if block.tag == "python"]
_REPLACE = next(block.text for block in blocks("docs/quickstart.md") if "intents replace" in block.text)
_FOLLOW = [block.text for block in blocks("docs/guides/follow-and-resume.md") if block.tag == "python"]
_TYPESCRIPT = next(block.text for block in blocks("docs/typescript.md") if block.tag == "ts")
_BOT = """
cat > bot.py <<'END'
from openbell import Client

SIGNALS = [f"signal-{number}" for number in range(1, 21)]
with Client() as client:
    for signal in SIGNALS:
        intent = client.buy("MSFT", 1, idempotency_key=signal)
        print(signal, client.wait(intent.intent_id).execution.status, flush=True)
print("all done")
END
"""


def _python(text: str) -> str:
    return f"python - <<'END_OF_PYTHON'\n{text}END_OF_PYTHON"


STEPS = (
    Step("enter the shell as the quickstart says", _ENTER),
    Step("first fill by curl", _CURL, (r'"status": ?"QUEUED"',)),
    Step(
        "the same request again is the same intent, replayed",
        f"FIRST=$({_CURL})\nSECOND=$({_CURL})\n"
        + _python(
            "import json, os\n"
            'first, second = (json.loads(os.environ[name]) for name in ("FIRST", "SECOND"))\n'
            'assert first["intent_id"] == second["intent_id"]\n'
        ),
    ),
    Step("first fill by Python", _python(_QUICKSTART[0]), ("FILLED 10 at ",)),
    Step("first fill by the command line", "openbell intents create AAPL BUY 10 --wait", ("execution FILLED",)),
    Step(
        "first fill by TypeScript",
        "make typescript && mkdir -p ts && cd ts && npm init -y >/dev/null && npm install ../clients/typescript\n"
        f"cat > first.mjs <<'END'\n{_TYPESCRIPT}END\nnode first.mjs",
        ("FILLED ",),
        only_full=True,
    ),
    Step("replace and cancel", _REPLACE, ("REPLACE", "CANCEL")),
    Step("a typing mistake names the nearest symbols", "openbell intents create APPL BUY 10 --wait", ("AAPL",), 1),
    Step(
        "a wrong key",
        "OPENBELL_API_KEY=${OPENBELL_API_KEY%?????}wrong openbell positions list",
        (r"(?i)key", r"(?i)check|create|use|ask"),
        1,
    ),
    Step(
        "a key sent as Bearer is told where it belongs",
        'curl -s "$OPENBELL_URL/v1/me" -H "Authorization: Bearer $OPENBELL_API_KEY"',
        (r"(?i)x-api-key",),
    ),
    Step(
        "no server at the address: the address is named",
        "OPENBELL_URL=http://127.0.0.1:9 openbell positions list",
        (r"http://127\.0\.0\.1:9",),
        3,
    ),
    Step(
        "a deadline that has passed",
        "openbell intents create AAPL BUY 1 --deadline 2020-01-01T00:00:00Z",
        (r"(?i)deadline", r"(?i)later|passed"),
        1,
    ),
    Step("not an intent's id", "openbell intents show 123", ("123 is not an intent id",), 2),
    Step("follow the log and stop after an event", _python(_FOLLOW[0]), (r"\d+ BUY 10 AAPL holds 10",)),
    Step("resume after the event", _python(_FOLLOW[1]), (r"\d+ BUY 10",)),
    Step("write a bot of ten lines", _BOT),
    Step(
        "the bot is killed and started again: one order per signal",
        "timeout --signal=KILL 2 python bot.py || true\npython bot.py\n"
        "openbell intents list --symbol MSFT --limit 100 --json | wc -l",
        ("all done 20$",),
    ),
)
