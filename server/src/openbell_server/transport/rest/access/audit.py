"""The route of the organization's audit log."""

from typing import Annotated
from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, Meta, Struct, UnsetType, convert

from openbell_server.application.access.read_audit_log import ReadAuditLog
from openbell_server.domain.access.audit_chain import FIELDS, Entry
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.intents.receipts import Sha256
from openbell_server.transport.rest.query_parameters import audit_filter_of, page_of
from openbell_server.transport.rest.wire_types import PageOf

# Texts, not objects and times: the hash covers every byte.
ObjectText = Annotated[str, Meta(description="the object as JSON text, without secrets")]


class AuditEntryBody(Struct, frozen=True):
    """An entry of the audit log: every field that its hash covers, and the hash."""

    organization_id: UUID
    number: int
    audit_id: UUID
    occurred_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    login: Annotated[str, Meta(description="the database login that recorded the change")]
    principal_type: PrincipalKind
    principal_id: str
    operation: str
    object_id: str
    after: ObjectText
    hash: Annotated[Sha256, Meta(description="SHA-256 of the previous entry's hash and this entry's fields")]
    # Absent if the object is new.
    before: ObjectText | UnsetType = UNSET


class AuditPageBody(PageOf[AuditEntryBody], frozen=True):
    """A page of the audit log."""


def audit_route(enter: Enter, read: ReadAuditLog) -> HTTPRouteHandler:
    @get("/v1/audit")
    async def list_audit_entries(request: AnyRequest) -> AuditPageBody:
        admin = await enter(request, Operation.READ_AUDIT_LOG)
        page = await read(admin, *page_of(request), audit_filter_of(request))
        return AuditPageBody([_body(entry) for entry in page.rows], page.next_cursor, page.last_cursor)

    return list_audit_entries


def _body(entry: Entry) -> AuditEntryBody:
    fields = {name: text for name, text in zip(FIELDS, entry.fields, strict=True) if text is not None}
    given = {"organization_id": entry.organization_id, "number": entry.number, "hash": entry.hash.hex()}
    return convert({**fields, **given}, AuditEntryBody)
