"""OpenAPI row of the event route."""

from dataclasses import replace as replace_of
from typing import Final

from openbell_server.application.events.follow_events import SYMBOLS_MAX
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.orders.positions import PositionCause
from openbell_server.transport.rest.events.payloads import PositionAdjustedBody
from openbell_server.transport.rest.events.routes import STARTS, TYPES, EventBody, EventPageBody, GapBody
from openbell_server.transport.rest.openapi.operation import ACCOUNT_FILTER, LIMIT, OF_INTENT, Described, Parameter

_ACCOUNT_ID: Final = "01981d3c-7a00-7000-8000-000000000002"
_TOKEN: Final = "AAAAAAAAACpTb3B1YmJsaWNfa2V"  # noqa: S105 - an example
_PAGE: Final = EventPageBody(
    data=[
        EventBody(
            event_id=f"{_ACCOUNT_ID}.42",
            account_id=_ACCOUNT_ID,
            account_seq=42,
            prev_seq=41,
            resume_token=_TOKEN,
            type="POSITION_ADJUSTED",
            occurred_at="2026-01-05T14:30:00.250Z",
            position_adjusted=PositionAdjustedBody(
                "AAPL", before="0", after="25", cause=PositionCause.OPENING, average_price="187.45"
            ),
        )
    ],
    oldest_seq=42,
    newest_seq=42,
    next_cursor=None,
    last_cursor=_TOKEN,
    gap=GapBody(17, 41, _TOKEN),
)
_STREAM: Final = (
    f"retry: 1000\n\nid: {_TOKEN}\nevent: subscribed\n"
    f'data: {{"account_id":"{_ACCOUNT_ID}","account_seq":41,"prev_seq":41,"subscribed":{{"start":"LIVE"}}}}\n\n'
    f"id: {_TOKEN}\nevent: position_adjusted\n"
    f'data: {{"event_id":"{_ACCOUNT_ID}.42","account_seq":42,"type":"POSITION_ADJUSTED","prev_seq":41}}\n\n'
)

EVENT_OPERATIONS: Final = (
    Described(
        path="/v1/events",
        operation_id="listEvents",
        summary="Read or follow events",
        description="Events of an account in order: from the oldest stored one, or after after_seq or next_cursor. "
        "Requested events that are no longer stored are reported in gap. A filtered page can be short or even empty; "
        "next_cursor shows that there are more.\n\nWith Accept: text/event-stream the response does not end. It "
        "continues after the header Last-Event-ID, or begins as start defines, and sends a subscribed frame, events "
        "and, if nothing else is sent, a heartbeat every ten seconds; an error frame contains the reason for the end. "
        "The id of a frame is the resume token after it, and the data of an event is the same as on a page. Each "
        "caller can have 20 open streams; a client that reads nothing for ten seconds is disconnected. A disabled "
        "organization has no streams, only pages.\n\nA stream without account_id has the events of every account that "
        "the caller may follow. Of its frames only some have an id, so events after it come again when you resume: "
        "skip those whose account_seq you have had of that account.",
        operation=Operation.FOLLOW_EVENTS,
        answer_example=_PAGE,
        answer_stream=_STREAM,
        parameters=(
            replace_of(ACCOUNT_FILTER, description="The account. Only a stream may be without: of every account."),
            replace_of(OF_INTENT, description="Only events of this intent; for pages."),
            Parameter(
                name="after_seq",
                description="Only events after this number; for pages.",
                schema={"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
                example=41,
            ),
            Parameter(
                name="next_cursor",
                description="Only events after this cursor or resume_token; for pages, instead of after_seq.",
                schema={"type": "string", "pattern": "^[A-Za-z0-9_-]{27}$"},
                example=_TOKEN,
            ),
            Parameter(
                name="types",
                description=f"Only events of these types, separated by commas: {', '.join(TYPES)}.",
                schema={"type": "string", "pattern": f"^({'|'.join(TYPES)})(,({'|'.join(TYPES)}))*$"},
                example="BROKER_ORDER,BROKER_TRADE",
            ),
            Parameter(
                name="symbols",
                description=f"Only events of these symbols, at most {SYMBOLS_MAX} separated by commas, and events "
                "without a symbol.",
                schema={
                    "type": "string",
                    "pattern": f"^[A-Za-z0-9.\\-/:_]{{1,32}}(,[A-Za-z0-9.\\-/:_]{{1,32}}){{0,{SYMBOLS_MAX - 1}}}$",
                },
                example="AAPL,MSFT",
            ),
            Parameter(
                name="start",
                description="Where a stream without Last-Event-ID begins. LIVE: with the next event; PRIMED: with a "
                "frame of the current state, then the events after it; BEGINNING: with the oldest stored event.",
                schema={"type": "string", "enum": list(STARTS)},
                example="BEGINNING",
            ),
            LIMIT,
            Parameter(
                name="Last-Event-ID",
                place="header",
                description="The id of the last frame that you received: the stream continues after it, whatever "
                "start is.",
                schema={"type": "string", "pattern": "^[A-Za-z0-9_-]{27,}$"},
                example=_TOKEN,
            ),
        ),
        codes=("invalid_cursor", "organization_disabled", "too_many_streams"),
    ),
)
