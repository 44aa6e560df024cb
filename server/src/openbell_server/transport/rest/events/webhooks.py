"""The routes of webhooks."""

from typing import Any
from uuid import UUID

from litestar import Response, Router, delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from openbell_server.application.webhooks.manage_webhooks import ManageWebhooks
from openbell_server.application.webhooks.send_test_message import TryWebhooks
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.events.webhooks import NewWebhook, Webhook, WebhookSecret
from openbell_server.transport.rest.entry import AnyRequest, Enter, etag_of, if_match_of
from openbell_server.transport.rest.events.webhook_bodies import (
    AttemptPageBody,
    LanePageBody,
    LanesSetBody,
    NewWebhookBody,
    ReplayBody,
    WebhookBody,
    WebhookChangeBody,
    WebhookListBody,
    WebhookTestBody,
    attempt_page_body,
    lane_page_body,
    webhook_body,
    webhook_test_body,
)
from openbell_server.transport.rest.query_parameters import flag_of, page_of
from openbell_server.transport.rest.strict_json import body_reader, read_body


def webhook_routes(enter: Enter, manage: ManageWebhooks, try_out: TryWebhooks) -> list[Router]:
    return [
        Router("/v1/webhooks", route_handlers=[*_reading(enter, manage), *_changing(enter, manage)]),
        Router("/v1/webhooks/{webhook_id:uuid}", route_handlers=[*_lanes(enter, manage), _testing(enter, try_out)]),
    ]


def _reading(enter: Enter, manage: ManageWebhooks) -> list[Any]:
    @get("/")
    async def list_webhooks(request: AnyRequest) -> WebhookListBody:
        caller = await enter(request, Operation.READ_WEBHOOKS)
        return WebhookListBody([webhook_body(*found) for found in await manage.list_all(caller)])

    @get("/{webhook_id:uuid}")
    async def show_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> Response[WebhookBody]:
        caller = await enter(request, Operation.READ_WEBHOOKS)
        webhook, counts = await manage.show(caller, webhook_id)
        return Response(webhook_body(webhook, counts), headers=etag_of(webhook.version))

    return [list_webhooks, show_webhook]


def _changing(enter: Enter, manage: ManageWebhooks) -> list[Any]:
    @post("/", status_code=201)
    async def create_webhook(request: AnyRequest) -> Response[WebhookBody]:
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)

        async def decode(environment: Environment | None) -> NewWebhook:
            return (await read_body(request, NewWebhookBody)).to_new(environment)

        webhook, secret = await manage.create(caller, decode)
        return _with_secret(webhook, secret, {"location": f"/v1/webhooks/{webhook.id}"})

    @patch("/{webhook_id:uuid}")
    async def change_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> Response[WebhookBody]:
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        expected = if_match_of(request)
        decode = body_reader(request, WebhookChangeBody, WebhookChangeBody.to_change)
        webhook = await manage.change(caller, webhook_id, decode, expected)
        return Response(webhook_body(webhook), headers=etag_of(webhook.version))

    @delete("/{webhook_id:uuid}")
    async def delete_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> None:
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        await manage.remove(caller, webhook_id, if_match_of(request))

    return [create_webhook, change_webhook, delete_webhook]


def _lanes(enter: Enter, manage: ManageWebhooks) -> list[Any]:
    @post("/rotate-secret", status_code=200)
    async def rotate_webhook_secret(request: AnyRequest, webhook_id: FromPath[UUID]) -> Response[WebhookBody]:
        """Replace the secret; the previous one also signs for 24 hours."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        return _with_secret(*await manage.rotate(caller, webhook_id, if_match_of(request)), {})

    @get("/lanes")
    async def list_webhook_lanes(request: AnyRequest, webhook_id: FromPath[UUID]) -> LanePageBody:
        caller = await enter(request, Operation.READ_WEBHOOKS)
        parked = flag_of(request, "parked")
        return lane_page_body(await manage.delivery_queues(caller, webhook_id, parked, *page_of(request)))

    @post("/replay", status_code=200)
    async def replay_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> LanesSetBody:
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        decode = body_reader(request, ReplayBody, ReplayBody.to_wanted)
        return LanesSetBody(await manage.replay(caller, webhook_id, decode))

    @get("/attempts")
    async def list_webhook_attempts(request: AnyRequest, webhook_id: FromPath[UUID]) -> AttemptPageBody:
        caller = await enter(request, Operation.READ_WEBHOOKS)
        return attempt_page_body(await manage.attempts(caller, webhook_id, *page_of(request)))

    return [rotate_webhook_secret, list_webhook_lanes, list_webhook_attempts, replay_webhook]


def _testing(enter: Enter, try_out: TryWebhooks) -> HTTPRouteHandler:
    @post("/test", status_code=200)
    async def test_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> WebhookTestBody:
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        return webhook_test_body(await try_out(caller, webhook_id))

    return test_webhook


def _with_secret(webhook: Webhook, secret: WebhookSecret, headers: dict[str, str]) -> Response[WebhookBody]:
    return Response(webhook_body(webhook, secret=secret), headers={**etag_of(webhook.version), **headers})
