"""OpenAPI row of the audit log."""

from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.names import REASON_LENGTH_MAX
from openbell_server.transport.rest.access.audit import AuditEntryBody, AuditPageBody
from openbell_server.transport.rest.openapi.operation import LIMIT, NEXT_CURSOR, ORDER, Described, Parameter, moment
from openbell_server.transport.rest.query_parameters import REFERENCE_LENGTH_MAX

_ENTRY: Final = AuditEntryBody(
    organization_id=UUID("01981d3c-7a00-7000-8000-000000000001"),
    number=7,
    audit_id=UUID("01981d3c-7a00-7000-8000-00000000000b"),
    occurred_at="2026-01-05T12:00:00.000000Z",
    login="openbell_app_api",
    principal_type=PrincipalKind.USER,
    principal_id="user_01H0000000000000000000",
    operation="keys change",
    object_id="01981d3c-7a00-7000-8000-000000000007",
    before='{"disabled": false}',
    after='{"disabled": true}',
    hash="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
)

AUDIT_OPERATIONS: Final = (
    Described(
        path="/v1/audit",
        operation_id="listAuditEntries",
        summary="List changes: who changed what, and when",
        description="The organization's audit log by number, which has no gaps: the oldest first, or with order=desc "
        "the newest. Entries are in a hash chain: `openbell audit export` writes a file that `openbell-server audit "
        "verify` checks. With operation or principal_id a page may be short although more follow.",
        operation=Operation.READ_AUDIT_LOG,
        answer_example=AuditPageBody([_ENTRY], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(
            moment("since", "Only changes at this time or later", "2026-01-05T09:30:00Z"),
            moment("until", "Only changes before this time", "2036-01-05T16:00:00Z"),
            Parameter(
                name="operation",
                description="Only this operation, such as `keys create`.",
                schema={"type": "string", "minLength": 1, "maxLength": REFERENCE_LENGTH_MAX, "format": "printable"},
                example="keys create",
            ),
            Parameter(
                name="principal_id",
                description="Only changes by this user, API key, service account or operator.",
                schema={"type": "string", "minLength": 1, "maxLength": REASON_LENGTH_MAX, "format": "printable"},
                example="user_01H0000000000000000000",
            ),
            ORDER,
            NEXT_CURSOR,
            LIMIT,
        ),
    ),
)
