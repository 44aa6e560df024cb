"""The route of event logs: pages of one account's, or a stream if the caller accepts text/event-stream."""

from typing import Annotated, Any, Final

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.events.event_frames import Start, Subscription
from openbell_server.application.events.event_json import event_document
from openbell_server.application.events.read_events import EventFilter, EventPage, ListedEvent, ReadEvents
from openbell_server.application.events.recheck_access import Entrance
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import FieldProblem, InvalidParameter, Problem
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId
from openbell_server.http_protocol import delay_response
from openbell_server.transport.rest.entry import AnyRequest, Enter, credential_of, end_read, organization_header_of
from openbell_server.transport.rest.events.payloads import (
    AccountChangedBody,
    BalancesChangedBody,
    BrokerOrderBody,
    BrokerTradeBody,
    ControlChangedBody,
    IntentActionBody,
    IntentRefusedBody,
    LossLimitExceededBody,
    PositionAdjustedBody,
)
from openbell_server.transport.rest.events.server_sent_events import EventStreams
from openbell_server.transport.rest.intents.external_orders import ExternalOrderBody
from openbell_server.transport.rest.query_parameters import (
    account_id_of,
    intent_id_of,
    page_of,
    sole,
    symbols_of,
    whole_number,
)
from openbell_server.transport.rest.wire_types import PageOf

TYPES: Final = {kind.name: kind for kind in EventKind}
STARTS: Final = {start.value: start for start in Start}
EventType = Annotated[str, Meta(extra_json_schema={"enum": list(TYPES)})]
MEDIA_TYPE: Final = "text/event-stream"
_LAST_EVENT_ID: Final = "last-event-id"
MomentText = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class EventBody(Struct, frozen=True, kw_only=True):
    """An event, with its details in the field named after its type."""

    event_id: str
    account_id: str
    account_seq: int
    prev_seq: int
    resume_token: str
    type: EventType
    occurred_at: MomentText
    broker_order: BrokerOrderBody | UnsetType = UNSET
    intent_action: IntentActionBody | UnsetType = UNSET
    account_changed: AccountChangedBody | UnsetType = UNSET
    external_order: ExternalOrderBody | UnsetType = UNSET
    position_adjusted: PositionAdjustedBody | UnsetType = UNSET
    broker_trade: BrokerTradeBody | UnsetType = UNSET
    control_changed: ControlChangedBody | UnsetType = UNSET
    intent_refused: IntentRefusedBody | UnsetType = UNSET
    balances_changed: BalancesChangedBody | UnsetType = UNSET
    loss_limit_exceeded: LossLimitExceededBody | UnsetType = UNSET


class GapBody(Struct, frozen=True):
    """Requested events that were removed, by age (RETENTION) or not (DELETED); resume_token continues after them."""

    first_seq: int
    last_seq: int
    resume_token: str
    reason: str = "RETENTION"


class EventPageBody(PageOf[EventBody], frozen=True, kw_only=True):
    """A page of the log; oldest_seq and newest_seq are the bounds of the stored events."""

    oldest_seq: int
    newest_seq: int
    gap: GapBody | UnsetType = UNSET


def event_route(enter: Enter, read: ReadEvents, streams: EventStreams) -> HTTPRouteHandler:
    @get("/v1/events")
    async def list_events(request: AnyRequest) -> Response[Any]:
        caller = await enter(request, Operation.FOLLOW_EVENTS)
        account_id = account_id_of(request)
        is_stream = MEDIA_TYPE in request.headers.get("accept", "")
        if is_stream:
            _refuse_if_full(request, caller)
        elif account_id is None:
            raise InvalidParameter("account_id", "must name the account; only a stream may be of every account")
        wanted = await read.wanted(
            caller, account_id, _kinds(request), symbols_of(request) or [], intent_id_of(request)
        )
        if is_stream or account_id is None:
            return await _stream(request, caller, account_id, wanted)
        _refuse(request, "start", "is for streams: send Accept: text/event-stream")
        if _LAST_EVENT_ID in request.headers:
            raise _wrong_header("is for streams: send Accept: text/event-stream, or next_cursor instead of it")
        return Response(_page(await read.page(caller, account_id, _after(request), page_of(request)[1], wanted)))

    def _refuse_if_full(request: AnyRequest, caller: Principal) -> None:
        try:
            streams.refuse_if_full(caller)
        except Problem:
            delay_response(request.scope, streams.refusal_delays.next_seconds(caller.organization_id))
            raise

    async def _stream(
        request: AnyRequest, caller: Principal, account_id: AccountId | None, wanted: EventFilter
    ) -> Response[Any]:
        for name in ("after_seq", "next_cursor", "limit", "intent_id"):
            _refuse(request, name, "is for pages: a stream continues after the header Last-Event-ID")
        start, token = _start(request)
        subscription = Subscription(
            account_id=account_id, kinds=wanted.kinds, symbols=wanted.symbols, start=start, resume_token=token
        )
        settings = {
            "subscriptions": sorted(kind.name for kind in wanted.kinds),
            "symbols": sorted(wanted.symbols),
            "start": sole(request, "start") or "LIVE",
        }
        entrance = Entrance(enter.authenticate, credential_of(request), organization_header_of(request))
        opened = await streams.open(caller, entrance, subscription, settings)
        # From now on it counts as a stream.
        end_read(request.scope)
        return opened

    return list_events


def _kinds(request: AnyRequest) -> frozenset[EventKind]:
    text = sole(request, "types")
    if text is None:
        return frozenset(EventKind)
    names = text.split(",")
    if any(name not in TYPES for name in names):
        raise InvalidParameter("types", f"must be one or more of {', '.join(TYPES)}, separated by commas")
    return frozenset(TYPES[name] for name in names)


def _after(request: AnyRequest) -> int | str | None:
    seq, token = sole(request, "after_seq"), sole(request, "next_cursor")
    if seq is None:
        return token
    if token is not None:
        raise InvalidParameter("after_seq", "and next_cursor both set where to begin: send one of them")
    after = whole_number(seq)
    if after is None:
        raise InvalidParameter("after_seq", "must be the account_seq of an event, or 0")
    return after


def _start(request: AnyRequest) -> tuple[Start | None, str | None]:
    start, token = sole(request, "start"), request.headers.get(_LAST_EVENT_ID)
    if token == "":
        raise _wrong_header("must be the id of a frame; leave it out to begin without one")
    if start is not None and start not in STARTS:
        raise InvalidParameter("start", f"must be one of {', '.join(STARTS)}")
    # A browser that reconnects sends the URL again, with its start, and the header.
    return (None, token) if start is None or token is not None else (STARTS[start], None)


def _wrong_header(message: str) -> Problem:
    wrong = FieldProblem(f"/headers/{_LAST_EVENT_ID}", "invalid", message)
    return Problem("invalid_parameter", f"Last-Event-ID {message}", (wrong,))


def _refuse(request: AnyRequest, name: str, message: str) -> None:
    if name in request.query_params:
        raise InvalidParameter(name, message)


def _page(page: EventPage) -> EventPageBody:
    return EventPageBody(
        data=[_event(listed) for listed in page.events],
        oldest_seq=page.oldest,
        newest_seq=page.newest,
        next_cursor=page.next_cursor,
        last_cursor=page.last_cursor,
        gap=UNSET if page.gap is None else GapBody(*page.gap),
    )


def _event(listed: ListedEvent) -> EventBody:
    document: dict[str, Any] = event_document(listed.event)
    return EventBody(**document, prev_seq=listed.previous, resume_token=listed.resume_token)
