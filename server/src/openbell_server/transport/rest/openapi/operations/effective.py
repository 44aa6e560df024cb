"""OpenAPI rows of the controls in force and of the kinds of rules."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.transport.rest.controls.effective import EffectiveControlsBody, EffectiveRuleBody
from openbell_server.transport.rest.controls.kinds import ControlKindsBody, kind_body
from openbell_server.transport.rest.openapi.operation import LIMIT, NEXT_CURSOR, Described
from openbell_server.transport.rest.openapi.operations.rules import PLACE_FILTERS

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)

EFFECTIVE_OPERATIONS: Final = (
    Described(
        path="/v1/controls/effective",
        operation_id="listEffectiveControls",
        summary="List the controls in force",
        description="Every rule and switch in force for a symbol, an account with all of its symbols, or the "
        "organization, the widest scope first: also those of the platform, defaults, and the controls of symbols as "
        "rules. Rules of an API key are included if it is named. is_strictest marks the rules that decide: no other "
        "one of the code that refuses, and applies wherever this one does, is stricter. For a symbol also whether it "
        "is disabled, and its trading times. If a rule changes while you read pages, the cursor is refused: begin "
        "again.",
        operation=Operation.READ_CONTROLS,
        answer_example=EffectiveControlsBody(
            data=[
                EffectiveRuleBody(
                    scope=Scope.ACCOUNT,
                    code="QTY_MAX",
                    mode=Mode.HARD,
                    is_strictest=True,
                    account_id=UUID("01981d3c-7a00-7000-8000-000000000002"),
                    parameters={"quantity": "500"},
                    version=2,
                    updated_at=_NOON,
                    principal_type="USER",
                    principal_id="user_01H0000000000000000000",
                    reason="fat fingers",
                ),
            ],
            last_cursor="AAAAAAAAACpTb3B1YmJsaWNfa2V",
            watched_only=False,
        ),
        parameters=(*PLACE_FILTERS, NEXT_CURSOR, LIMIT),
        codes=("not_found",),
    ),
    Described(
        path="/v1/controls/kinds",
        operation_id="listControlKinds",
        summary="List the kinds of rules",
        description="Every kind on one page: what it refuses, the JSON schema of its parameters, where it can be set, "
        "when it is evaluated, whether it counts, and the unit of its limit.",
        operation=Operation.READ_CONTROL_KINDS,
        answer_example=ControlKindsBody([kind_body(CATALOGUE["QTY_MAX"])]),
    ),
)
