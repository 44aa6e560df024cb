"""The back-test route: which recorded commands a set of rules would have refused."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Router, post
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from openbell_server.application.controls.backtest_rules import (
    EXAMPLES_MAX,
    RULES_MAX,
    Backtested,
    BacktestRequest,
    BacktestRules,
    ProposedRule,
)
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.backtest import Example
from openbell_server.domain.controls.catalogue import CATALOGUE, SETTABLE
from openbell_server.domain.controls.facts import Gate
from openbell_server.domain.controls.findings import Comparison, Finding, Mode, Scope
from openbell_server.domain.controls.rules import OnMissing
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intents import ActionType
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.intents.bodies import SymbolText
from openbell_server.transport.rest.intents.statistics_bodies import WindowBody
from openbell_server.transport.rest.strict_json import read_body
from openbell_server.transport.rest.wire_types import Moment, body_from, in_utc

CodeText = Annotated[
    str,
    Meta(
        max_length=40,
        description="the code of a rule",
        examples=["QTY_MAX"],
        extra_json_schema={"enum": [code for code in SETTABLE if Gate.ACCEPT in CATALOGUE[code].gates]},
    ),
]
# A list contains texts, or pairs of texts.
ValueOnWire = str | int | list[str | list[str]] | None
KeyText = Annotated[str, Meta(pattern="^[!-~]{1,64}$", description="the id of a key")]


class ProposedRuleBody(Struct, forbid_unknown_fields=True, frozen=True):
    """A rule to test, with the parameters of its code."""

    scope: Scope
    code: CodeText
    parameters: dict[str, Any]
    mode: Mode = Mode.HARD
    on_missing: OnMissing | None = None
    symbol: SymbolText | None = None
    api_key_id: KeyText | None = None

    def to_rule(self) -> ProposedRule:
        return ProposedRule(**structs.asdict(self))


class BacktestRequestBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The rules and the account whose commands are tested; since and until default to the last seven days."""

    account_id: UUID
    rules: Annotated[list[ProposedRuleBody], Meta(max_length=RULES_MAX)]
    since: Moment | None = None
    until: Moment | None = None
    replace: Annotated[
        bool, Meta(description="false: the rules in force stay, except those of the same scope and code")
    ] = True
    limit: Annotated[int, Meta(ge=0, le=EXAMPLES_MAX, description="maximum number of examples")] = 20

    def to_request(self) -> BacktestRequest:
        return BacktestRequest(
            account_id=AccountId(self.account_id),
            rules=[rule.to_rule() for rule in self.rules],
            since=in_utc(self.since),
            until=in_utc(self.until),
            replaces_all=self.replace,
            examples_max=self.limit,
        )


class RuleTallyBody(Struct, frozen=True):
    """Counts of the results of one rule."""

    scope: Scope
    code: str
    refused: int
    would_refuse: int
    undecided: int
    symbol: str | UnsetType = UNSET
    api_key_id: str | UnsetType = UNSET


class BacktestFindingBody(Struct, frozen=True):
    """The result that one rule would have had for one command."""

    code: str
    scope: Scope
    mode: Mode
    verdict: Annotated[str, Meta(examples=["REFUSED"])]
    comparison: Comparison
    limit: ValueOnWire
    observed: ValueOnWire
    would_pass: str | UnsetType = UNSET
    headroom: str | UnsetType = UNSET
    missing: str | UnsetType = UNSET
    inputs: dict[str, str] | UnsetType = UNSET


class ExampleBody(Struct, frozen=True):
    """A command with a different result: its action, or the receipt of its refusal."""

    at: Moment
    symbol: str
    action_type: ActionType
    was_refused: bool
    would_be_refused: bool
    findings: list[BacktestFindingBody]
    action_id: UUID | UnsetType = UNSET
    receipt_id: UUID | UnsetType = UNSET


class BacktestBody(Struct, frozen=True):
    """The results that the rules would have had for the commands of a time window."""

    account_id: UUID
    window: WindowBody
    # intents: commands that create or enlarge an order; judged: those with enough recorded data.
    intents: int
    judged: int
    refused: int
    undecided: int
    newly_refused: int
    newly_accepted: int
    by_rule: list[RuleTallyBody]
    examples: list[ExampleBody]


def backtest_route(enter: Enter, backtest: BacktestRules) -> Router:
    @post("/", status_code=200)
    async def backtest_rules(request: AnyRequest) -> BacktestBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        wanted = (await read_body(request, BacktestRequestBody)).to_request()
        return backtest_body(wanted.account_id, await backtest(caller, wanted))

    return Router("/v1/controls/backtest", route_handlers=[backtest_rules])


def backtest_body(account_id: AccountId, backtested: Backtested) -> BacktestBody:
    tally = backtested.tally
    return body_from(
        BacktestBody,
        tally,
        account_id=account_id,
        window=WindowBody(since=backtested.since, until=backtested.until),
        by_rule=[body_from(RuleTallyBody, line) for line in tally.by_rule.values()],
        examples=[_example_body(example) for example in tally.examples],
    )


def _example_body(example: Example) -> ExampleBody:
    command = example.command
    return ExampleBody(
        at=command.recorded_at,
        symbol=command.asked.symbol,
        action_type=command.asked.action_type,
        was_refused=command.was_refused,
        would_be_refused=example.is_refused,
        findings=[_finding_body(finding) for finding in example.findings],
        action_id=UNSET if command.was_refused else command.id,
        receipt_id=command.id if command.was_refused else UNSET,
    )


def _finding_body(finding: Finding) -> BacktestFindingBody:
    return body_from(BacktestFindingBody, finding, inputs=dict(finding.inputs) or UNSET)
