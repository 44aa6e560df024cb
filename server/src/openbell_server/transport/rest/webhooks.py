"""The routes of webhooks."""

from typing import Any
from uuid import UUID

from litestar import Request, Response, Router, delete, get, patch, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from openbell_server.application.manage_webhooks import ManageWebhooks
from openbell_server.application.try_webhooks import TryWebhooks
from openbell_server.domain.accounts import Environment
from openbell_server.domain.authorization import Operation
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.webhooks import NewWebhook, Webhook, WebhookChange, WebhookSecret
from openbell_server.transport.rest.entry import Enter, etag_of, if_match_of
from openbell_server.transport.rest.intent_queries import flag_of, page_of
from openbell_server.transport.rest.intents import json_body_of
from openbell_server.transport.rest.strict_json import read_json
from openbell_server.transport.rest.webhook_bodies import (
    LanePageBody,
    LanesSetBody,
    NewWebhookBody,
    ReplayBody,
    ResumeBody,
    WebhookBody,
    WebhookChangeBody,
    WebhookListBody,
    WebhookTestBody,
    lane_page_body,
    webhook_body,
    webhook_test_body,
)

AnyRequest = Request[Any, Any, State]


def webhook_routes(enter: Enter, manage: ManageWebhooks, try_out: TryWebhooks) -> list[Router]:
    """Managing the webhooks of an organization, and how far they have come."""
    return [
        Router("/v1/webhooks", route_handlers=[*_reading(enter, manage), *_changing(enter, manage)]),
        Router("/v1/webhooks/{webhook_id:uuid}", route_handlers=[*_lanes(enter, manage), _testing(enter, try_out)]),
    ]


def _reading(enter: Enter, manage: ManageWebhooks) -> list[Any]:
    @get("/")
    async def list_webhooks(request: AnyRequest) -> WebhookListBody:
        """Every webhook, the oldest first."""
        caller = await enter(request, Operation.READ_WEBHOOKS)
        return WebhookListBody([webhook_body(*found) for found in await manage.list_all(caller)])

    @get("/{webhook_id:uuid}")
    async def show_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> Response[WebhookBody]:
        """One webhook, and how its lanes stand."""
        caller = await enter(request, Operation.READ_WEBHOOKS)
        webhook, counts = await manage.show(caller, webhook_id)
        return Response(webhook_body(webhook, counts), headers=etag_of(webhook.version))

    return [list_webhooks, show_webhook]


def _changing(enter: Enter, manage: ManageWebhooks) -> list[Any]:
    @post("/", status_code=201)
    async def create_webhook(request: AnyRequest) -> Response[WebhookBody]:
        """Make a webhook; its secret is in this answer and nowhere else."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)

        async def decode(environment: Environment | None) -> NewWebhook:
            return read_json(await json_body_of(request), NewWebhookBody).to_new(environment)

        webhook, secret = await manage.create(caller, decode)
        return _told(webhook, secret, {"location": f"/v1/webhooks/{webhook.id}"})

    @patch("/{webhook_id:uuid}")
    async def change_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> Response[WebhookBody]:
        """Change, pause or go on with a webhook."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        expected = if_match_of(request)

        async def decode() -> WebhookChange:
            return read_json(await json_body_of(request), WebhookChangeBody).to_change()

        webhook = await manage.change(caller, webhook_id, decode, expected)
        return Response(webhook_body(webhook), headers=etag_of(webhook.version))

    @delete("/{webhook_id:uuid}")
    async def delete_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> None:
        """Remove a webhook, for good."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        await manage.remove(caller, webhook_id, if_match_of(request))

    return [create_webhook, change_webhook, delete_webhook]


def _lanes(enter: Enter, manage: ManageWebhooks) -> list[Any]:
    @post("/rotate-secret", status_code=200)
    async def rotate_webhook_secret(request: AnyRequest, webhook_id: FromPath[UUID]) -> Response[WebhookBody]:
        """The next secret; the one before signs along for a day."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        return _told(*await manage.rotate(caller, webhook_id, if_match_of(request)), {})

    @get("/lanes")
    async def list_webhook_lanes(request: AnyRequest, webhook_id: FromPath[UUID]) -> LanePageBody:
        """How far each account has come."""
        caller = await enter(request, Operation.READ_WEBHOOKS)
        parked = flag_of(request, "parked")
        return lane_page_body(await manage.lanes(caller, webhook_id, parked, *page_of(request)))

    @post("/replay", status_code=200)
    async def replay_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> LanesSetBody:
        """Send again, or skip: go on after a number."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)

        async def decode() -> tuple[AccountId | None, int]:
            return read_json(await json_body_of(request), ReplayBody).to_wanted()

        return LanesSetBody(await manage.replay(caller, webhook_id, decode))

    @post("/resume", status_code=200)
    async def resume_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> LanesSetBody:
        """Try again at once what failed or was parked."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)

        async def decode() -> AccountId | None:
            return read_json(await json_body_of(request), ResumeBody).to_wanted()

        return LanesSetBody(await manage.resume(caller, webhook_id, decode))

    return [rotate_webhook_secret, list_webhook_lanes, replay_webhook, resume_webhook]


def _testing(enter: Enter, try_out: TryWebhooks) -> HTTPRouteHandler:
    @post("/test", status_code=200)
    async def test_webhook(request: AnyRequest, webhook_id: FromPath[UUID]) -> WebhookTestBody:
        """Send a test message at once, and tell what its target said."""
        caller = await enter(request, Operation.MANAGE_WEBHOOKS)
        return webhook_test_body(await try_out(caller, webhook_id))

    return test_webhook


def _told(webhook: Webhook, secret: WebhookSecret, headers: dict[str, str]) -> Response[WebhookBody]:
    told = {**etag_of(webhook.version), **headers, "cache-control": "no-store"}
    return Response(webhook_body(webhook, secret=secret), headers=told)
