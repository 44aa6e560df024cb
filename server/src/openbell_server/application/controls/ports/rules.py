"""Rules, receipts and the counts that rules need, in the database."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from openbell_server.application.ports.accept_step import Acceptance, Submission
from openbell_server.domain.access.accounts import Environment, TradingAccount
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.facts import CommandFacts, Exposure, Holding, Need, Rate, ReferencePrice
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.rules import Address, Override, Rule, RuleBook, RuleTerms, StoredRule
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.markets.instruments import Instrument
from openbell_server.domain.money.balances import FreeBuyingPower
from openbell_server.domain.money.losses import LossMark
from openbell_server.domain.orders.intents import IntentAction


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """One change of a rule; before is None for a new rule, after for a removed one."""

    address: Address
    code: str
    version: int
    before: StoredRule | None
    after: StoredRule | None
    reason: str | None
    principal: tuple[str, str]
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFilter:
    """Which rules of an organization to list; None: of every scope, account, key, environment and code."""

    organization_id: OrganizationId
    scope: Scope | None = None
    account_id: AccountId | None = None
    # The account and a symbol, or the key.
    subject: str | None = None
    environment: Environment | None = None
    # Of a key that is limited to accounts: rules of these, of no account, and of no other key.
    account_ids: frozenset[AccountId] | None = None
    own_key: str | None = None
    # Only for rules; None: rules and switches.
    switches: bool | None = None
    # Only for changes.
    code: str | None = None


@dataclass(frozen=True, slots=True)
class OrganizationStanding:
    name: str
    disabled: bool
    entitlements: frozenset[str]


class RuleStore(Protocol):
    """Rules at every scope. A change starts a new epoch of the organization, or of the account under its lock."""

    async def standing(self, organization_id: OrganizationId) -> OrganizationStanding | None:
        """None if there is no such organization."""

    async def find_rule(self, address: Address, code: str) -> StoredRule | None:
        """None if there is no rule or it was removed."""

    async def list_rules(self, wanted: RuleFilter, after: int, limit: int) -> list[tuple[int, StoredRule]]:
        """Rules with their numbers, in the order in which they were first set, beginning after a number."""

    async def save_rule(
        self,
        address: Address,
        code: str,
        change: RuleTerms | Override | None,
        reason: str | None,
        principal: Principal,
        expected: Collection[int] | None,
    ) -> StoredRule | None:
        """Set permanent terms or terms for a time, or remove the rule (None); returns the rule after the change.

        Raises permission_denied if the change loosens the rule as it is under the lock and the principal may not, and
        version_mismatch unless the version is in `expected` (None accepts any, 0 means no rule), and not_found
        when there is no rule to remove. The change commits only when no command evaluated by the old rules can still
        be sent.
        """

    async def list_changes(self, wanted: RuleFilter, before: int | None, limit: int) -> list[tuple[int, RuleChange]]:
        """Changes of rules and switches with their numbers, the newest first, beginning before a number."""


class RuleBookStore(Protocol):
    async def rule_book(self, account: TradingAccount) -> RuleBook:
        """The rules at the account's epochs; read again only when the epochs changed."""

    async def organization_book(self, organization_id: OrganizationId) -> RuleBook:
        """The rules of the platform, the organization and its keys; symbols are as they were spelled."""


class MarketStore(Protocol):
    """Instruments, reference prices and exchange rates; a price may be up to one second behind the stored one."""

    async def find_price(self, account: TradingAccount, symbol: Symbol) -> ReferencePrice | None:
        """The newest price, however old; the read makes executors refresh it from now on."""

    async def find_instrument(self, account: TradingAccount, symbol: Symbol) -> Instrument | None:
        """The broker's instrument; the read makes executors refresh it from now on."""

    async def find_rate(self, organization_id: OrganizationId, from_currency: str, to_currency: str) -> Rate | None:
        """How much of to_currency one unit of from_currency is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """What to count for a command."""

    asked: CommandFacts
    needs: frozenset[Need]
    # The intent whose order a REPLACE changes; that order is not counted.
    intent_id: IntentId | None = None
    # Set when the command is checked before sending: actions queued behind it are not counted.
    action_id: ActionId | None = None
    idempotency_key: str | None = None
    # How far back equal orders count.
    window_millis: int = 0
    # The account's broker, and the currencies of rules on the value of what it holds.
    broker: str = ""
    currencies: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFacts:
    """The counts; None where `needs` did not include them."""

    # The database's clock and the epochs of organization and account, under the lock.
    now: datetime
    epochs: tuple[int, int]
    # Whether a command with the same idempotency key was recorded before.
    is_replay: bool
    # Positions and open orders of the account.
    exposure: Exposure | None
    # Acceptance times of equal orders, newest first.
    equal_orders: Sequence[datetime] | None
    # What the account holds in other symbols, and rates from the currencies of these symbols.
    others: Sequence[Holding] | None
    rates_of_exchange: Mapping[tuple[str, str], Rate]
    # What the account lost, by currency and time zone.
    losses: Mapping[tuple[str, str], LossMark]
    # None also if the broker has not reported it yet.
    funds: FreeBuyingPower | None


class CountedAccept(Protocol):
    """One transaction under the account's lock; its counts stay valid until it ends."""

    @property
    def facts(self) -> CountedFacts: ...

    async def judged(self, rules: Sequence[Rule], *, count: bool) -> dict[tuple[str, str], Sequence[datetime]]:
        """Times of commands that each rate rule counted before, newest first, at most as many as the rule allows.

        With `count`, the rules count this command from now on, even if it is refused.
        """

    async def day_values(self, rules: Sequence[Rule], *, lock: bool) -> dict[tuple[str, str], Decimal]:
        """The value that each rule of a day's value has accepted on the present day, by its scope and subject.

        With `lock`, no other transaction changes them before this one ends.
        """

    async def add_day_values(self, rules: Sequence[Rule], values: Sequence[Decimal]) -> None: ...

    async def reserve(self, action_id: ActionId, currency: str, amount: Decimal) -> None:
        """Count what an accepted command may cost, until the broker's balances include it."""

    async def accept(self, submission: Submission, deadline: datetime | None) -> Acceptance: ...

    async def refuse(self, receipt_id: ReceiptId, receipt: Receipt) -> None:
        """Store the receipt of a refused command."""


class CountedAcceptStore(Protocol):
    def counting(self, account: TradingAccount, question: Counting) -> AbstractAsyncContextManager[CountedAccept]:
        """A transaction under the account's lock, with the counts read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """A receipt as it was written, with its hash."""

    receipt_id: ReceiptId
    account_id: AccountId
    # None for a refused command.
    intent_id: IntentId | None
    seq: int | None
    verdict: str
    body: str
    hash: bytes
    # The number of a refusal; None for other receipts, and for refusals from before they were numbered.
    refusal_no: int | None
    created_at: datetime

    @property
    def place(self) -> int:
        """Sort key among the receipts of an intent: a refusal before sending follows the command's acceptance."""
        return 2 * (self.seq or 0) + (self.refusal_no is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHeads:
    """The counts of an account's actions and refusals, and the heads of both hash chains there."""

    actions: int
    chain_head: bytes
    refusals: int
    refusal_head: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedAction:
    """An action with the inputs of its hash chain."""

    action: IntentAction
    # The number of the first action of its accept batch.
    chained_from: int
    hash: bytes
    receipt_text: str
    receipt_hash: bytes


class ReceiptStore(Protocol):
    async def find_receipt(
        self, organization_id: OrganizationId, account_id: AccountId, receipt_id: ReceiptId
    ) -> StoredReceipt | None: ...

    async def receipts_of_intent(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, after: int, limit: int
    ) -> list[StoredReceipt]:
        """Receipts of an intent's commands and of refusals before sending, by place, beginning after a place."""

    async def refusals_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[StoredReceipt]:
        """Refusals of the account by number, beginning after a number."""

    async def chain_heads(self, organization_id: OrganizationId, account_id: AccountId) -> ChainHeads:
        """The heads of both chains; rows up to there never change."""

    async def chained_actions(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[ChainedAction]:
        """Actions of the account by number, beginning after a number."""
