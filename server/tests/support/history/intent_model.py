"""A model of what a caller can do over HTTP, in random order against a real api: commands, controls, keys, reads."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

from support.rest.openapi_conformance import Conformance

QUANTITIES = st.integers(1, 10**6).map(lambda thousandths: f"{thousandths / 1000:.3f}")
SPECS = st.one_of(
    st.builds(lambda quantity: {"Market": {"quantity": quantity}}, QUANTITIES),
    st.builds(lambda price, quantity: {"Limit": {"price": price, "quantity": quantity}}, QUANTITIES, QUANTITIES),
    st.builds(lambda stop, quantity: {"Stop": {"stop_price": stop, "quantity": quantity}}, QUANTITIES, QUANTITIES),
)


@dataclass
class World:
    """Where the machines run, and what they saw; nothing that goes wrong stops the others."""

    client: httpx.Client
    account_id: str
    key: str
    admin: str
    conformance: Conformance
    sessions: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    breaks: list[str] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)

    def call(self, method: str, path: str, expected: set[int], **request: Any) -> httpx.Response:
        """Send it, hold the answer against the document, and note a status that the model did not expect."""
        headers = request.pop("headers", {})
        if "authorization" not in headers:
            headers = {"x-api-key": self.key, **headers}
        answer = self.client.request(method, path, headers=headers, **request)
        self.answers[answer.status_code] += 1
        self.breaks += self.conformance.breaks(answer)
        if answer.status_code not in expected:
            self.surprises.append(f"{method} {path} {request}: {answer.status_code} {answer.text}")
        return answer

    @property
    def intents(self) -> str:
        return f"/v1/accounts/{self.account_id}/intents"

    def expect(self, truth: bool, what: str) -> None:
        if not truth:
            self.surprises.append(what)


class IntentMachine(RuleBasedStateMachine):
    """One caller's session; other sessions of the same account go on beside it."""

    world: ClassVar[World]

    intents = Bundle("intents")

    @initialize()
    def begin(self) -> None:
        # A symbol of its own, so that no other session's control is met.
        self.symbol, self.off = f"S{uuid4().hex[:12]}".upper(), False
        self.world.sessions += 1
        self.submitted: dict[str, tuple[str, dict[str, Any]]] = {}
        self.latest: dict[str, tuple[int, str]] = {}

    @rule(target=intents, spec=SPECS, side=st.sampled_from(["BUY", "SELL", "SELL_SHORT"]))
    def create(self, spec: dict[str, Any], side: str) -> Any:
        body = {"command": {"type": "CREATE", "payload": {"symbol": self.symbol, "order_side": side, "spec": spec}}}
        key = str(uuid4())
        expected = {422} if self.off else {202}
        answer = self.world.call("POST", self.world.intents, expected, json=body, headers={"idempotency-key": key})
        if answer.status_code != 202:
            return multiple()
        intent_id = answer.json()["intent_id"]
        self.submitted[intent_id] = key, body
        return intent_id

    def _note(self, intent_id: str, answer: httpx.Response) -> None:
        """A cancel may answer with an earlier one, so the highest number counts."""
        told = answer.json()
        self.latest[intent_id] = max(self.latest.get(intent_id, (1, "CREATE")), (told["seq"], told["action_type"]))

    @rule(intent_id=intents)
    def repeat(self, intent_id: str) -> None:
        """The same key and command: the same action, whatever has happened since."""
        key, body = self.submitted[intent_id]
        answer = self.world.call("POST", self.world.intents, {202}, json=body, headers={"idempotency-key": key})
        if answer.status_code == 202:
            self.world.expect(answer.json()["intent_id"] == intent_id, f"a retry of {intent_id} made another intent")
            self.world.expect(answer.headers.get("idempotency-replayed") == "true", "a retry was not called one")

    @rule(intent_id=intents)
    def reuse(self, intent_id: str) -> None:
        """The same key for another command."""
        key, _ = self.submitted[intent_id]
        body = {"command": {"type": "CANCEL", "payload": {"ref_intent_id": intent_id}}}
        self.world.call("POST", self.world.intents, {422}, json=body, headers={"idempotency-key": key})

    @rule(intent_id=intents)
    def cancel(self, intent_id: str) -> None:
        body = {"command": {"type": "CANCEL", "payload": {"ref_intent_id": intent_id}}}
        answer = self.world.call("POST", self.world.intents, {202, 409}, json=body)
        if answer.status_code == 202:
            self._note(intent_id, answer)

    @rule(intent_id=intents, spec=SPECS)
    def replace(self, intent_id: str, spec: dict[str, Any]) -> None:
        """Taken, or refused: the order has ended, is of another kind, has filled, or its symbol is off."""
        body = {"command": {"type": "REPLACE", "payload": {"ref_intent_id": intent_id, "spec": spec}}}
        answer = self.world.call("POST", self.world.intents, {202, 409, 422}, json=body)
        if answer.status_code == 202:
            self.world.expect(not self.off, f"{intent_id} was replaced while its symbol was off")
            self._note(intent_id, answer)

    @rule(off=st.booleans())
    def switch(self, off: bool) -> None:
        """The symbol off or on; it acts from the answer on."""
        path = f"/v1/controls/accounts/{self.world.account_id}/symbols/{self.symbol.lower()}"
        answer = self.world.call("PUT", path, {200}, json={"manually_disabled": off})
        if answer.status_code == 200:
            self.off = off

    @rule()
    def revoke(self) -> None:
        """A key that is made, used and revoked; revoking it again is no change."""
        admin = {"authorization": self.world.admin}
        new = {"name": "short-lived", "environment": "paper", "permissions": ["intent:read"]}
        made = self.world.call("POST", "/v1/api-keys", {201}, json=new, headers=admin)
        if made.status_code != 201:
            return
        path, key = f"/v1/api-keys/{made.json()['id']}", {"x-api-key": made.json()["api_key"]}
        self.world.call("GET", self.world.intents, {200}, headers=key, params={"limit": 1})
        for _ in range(2):
            self.world.call("DELETE", path, {204}, headers=admin)
        # Another replica may believe it for a second; the one that revoked it does not.
        self.world.call("GET", self.world.intents, {200, 401}, headers=key, params={"limit": 1})
        self.world.call("PATCH", path, {409}, json={"disabled": False}, headers=admin)

    @rule()
    def cancel_what_is_not_there(self) -> None:
        body = {"command": {"type": "CANCEL", "payload": {"ref_intent_id": str(uuid4())}}}
        self.world.call("POST", self.world.intents, {404}, json=body)

    @rule(intent_id=intents)
    def read(self, intent_id: str) -> None:
        answer = self.world.call("GET", f"{self.world.intents}/{intent_id}", {200})
        if answer.status_code == 200:
            latest = answer.json()
            _, asked = self.latest.get(intent_id, (1, "CREATE"))
            self.world.expect(latest["action_type"] == asked, f"the latest action of {intent_id} is not {asked}")

    @rule(intent_id=intents, limit=st.integers(1, 3))
    def follow_history(self, intent_id: str, limit: int) -> None:
        """Page by page: numbered from 1 without a gap."""
        path, query, numbers = f"{self.world.intents}/{intent_id}/actions", {"limit": str(limit)}, []
        while True:
            answer = self.world.call("GET", path, {200}, params=query)
            if answer.status_code != 200:
                return
            page = answer.json()
            numbers += [action["seq"] for action in page["data"]]
            if page["next_cursor"] is None:
                break
            query["next_cursor"] = page["next_cursor"]
        self.world.expect(numbers == list(range(1, len(numbers) + 1)), f"{intent_id} is numbered {numbers}")
