"""An operator: an organization, health, backup, upgrade, and an unknown outcome that is settled by hand."""

from proof.journeys.steps import Step
from support.environment.doc_blocks import blocks

_ENTER = 'export PATH="$PWD/.venv/bin:$PATH" && . .openbell/dev.env'
_OPERATORS = [block.text for block in blocks("docs/operators.md") if block.tag == "bash"]
_BACKUP = [block.text for block in blocks("docs/backup.md") if block.tag == "bash"]
_UNKNOWN = next(block.text for block in blocks("docs/unknown.md") if "actions settle" in block.text)
_TOKEN = "export TOKEN=$(openbell-server tokens mint --user you --organization org_acme --role admin)\n"

STEPS = (
    Step("enter the shell", _ENTER),
    Step(
        "from an empty organization to a live order: entitlement, account, key, credential, limit, webhook",
        "(\n" + "\n".join(_OPERATORS[:3]) + ")",
        ("FILLED",),
    ),
    Step("the doctor of an api: all is well", "(. .openbell/server.env; openbell-server doctor)", (r"ok\b",)),
    Step(
        "the doctor beside a database that does not answer: exit code 1",
        "rm -f hole.port\npython - <<'END' &\nimport socket, time\n"
        'hole = socket.create_server(("127.0.0.1", 0))\n'
        'open("hole.port", "w").write(str(hole.getsockname()[1]))\ntime.sleep(60)\nEND\n'
        "HOLE=$!\ntrap 'kill $HOLE' EXIT\nuntil [ -s hole.port ]; do sleep 0.1; done\n"
        "(. .openbell/server.env; OPENBELL_DATABASE_URL=postgresql://nobody@127.0.0.1:$(cat hole.port)/openbell "
        "openbell-server doctor)",
        ("(?i)database",),
        1,
    ),
    Step(
        "the doctor that cannot tell: exit code 2",
        "(. .openbell/server.env; unset OPENBELL_NATS_MONITOR_URL; openbell-server doctor)",
        ("(?i)cannot tell",),
        2,
    ),
    Step("the queues are healthy", "(. .openbell/operator.env; openbell-server outbox)", ("HEALTHY",)),
    Step(
        "readiness and metrics",
        '(. .openbell/server.env; curl -sf "http://127.0.0.1:$OPENBELL_OPERATIONS_PORT/readyz"; '
        'curl -sf -o metrics.txt "http://127.0.0.1:$OPENBELL_OPERATIONS_PORT/metrics"; head -3 metrics.txt)',
        ("openbell_|python_",),
    ),
    Step("a backup, restored and checked", "(\n" + "\n".join(_BACKUP[:2]) + ")", ("This database is whole",)),
    Step("what a restore would hold", "(. .openbell/operator.env; openbell-server recovery status)"),
    Step("the schema is current", "(. .openbell/operator.env; openbell-server migrate --check)"),
    Step("migrate again changes nothing", "(. .openbell/operator.env; openbell-server migrate)"),
    Step("an unknown outcome is settled by hand", _TOKEN + _UNKNOWN, ("FAILED",)),
    Step(
        "the settlement is in the audit log, which is verified",
        "(. .openbell/operator.env; openbell-server audit list --limit 20; openbell-server audit verify)",
        ("actions settle", "(?i)intact|right"),
    ),
)
