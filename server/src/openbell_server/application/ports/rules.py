"""What use cases need to keep rules, and to judge commands by them."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.application.ports.stores import Acceptance, Submission
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.control_facts import Asked, Exposure, Need, Rate, ReferencePrice
from openbell_server.domain.control_rules import Address, Override, Rule, RuleBook, RuleTerms, StoredRule
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.instruments import Instrument
from openbell_server.domain.intents import IntentAction
from openbell_server.domain.principals import Principal
from openbell_server.domain.receipts import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """One change of a rule as its history has it; None before: it was not there, None after: it was removed."""

    code: str
    version: int
    before: StoredRule | None
    after: StoredRule | None
    reason: str | None
    principal: tuple[str, str]
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class OrganizationStanding:
    """What an organization may do with rules of its own."""

    disabled: bool
    entitlements: frozenset[str]


class RuleStore(Protocol):
    """Rules at every scope. A change begins a new epoch, of the account under its lock or of the organization."""

    async def standing(self, organization_id: OrganizationId) -> OrganizationStanding | None:
        """How the organization stands, if there is one."""

    async def find_rule(self, address: Address, code: str) -> StoredRule | None:
        """The rule, unless there is none or it was removed."""

    async def list_rules(self, address: Address) -> list[StoredRule]:
        """Every rule at the address, by code."""

    async def save_rule(
        self,
        address: Address,
        code: str,
        change: RuleTerms | Override | None,
        reason: str | None,
        principal: Principal,
        expected: Collection[int] | None,
    ) -> StoredRule | None:
        """Set the terms, or others for a time, or remove the rule with both; what is there after.

        Versions other than those expected refuse with version_mismatch: None expects nothing, 0 that no rule is there.
        To remove what is not there is not_found. It is committed only when no door that was judged by the rules of
        before can open any more.
        """

    async def history(self, address: Address, code: str, before_version: int | None, limit: int) -> list[RuleChange]:
        """Changes of the rule, the newest first, from the one before a version."""


class RuleBookStore(Protocol):
    """The rules of an account, ready to be evaluated."""

    async def rule_book(self, account: TradingAccount) -> RuleBook:
        """What applies at the account's epochs; read only when they have changed."""


class MarketStore(Protocol):
    """Instruments, reference prices and rates of exchange; a price may be one second behind what is stored."""

    async def find_price(self, account: TradingAccount, symbol: Symbol) -> ReferencePrice | None:
        """The newest price, however old; asking keeps it fresh from now on."""

    async def find_instrument(self, account: TradingAccount, symbol: Symbol) -> Instrument | None:
        """What the broker says of the symbol; asking keeps it fresh from now on."""

    async def find_rate(self, organization_id: OrganizationId, from_currency: str, to_currency: str) -> Rate | None:
        """What one unit of a currency is in another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """What is to be counted for a command."""

    asked: Asked
    needs: frozenset[Need]
    # Whose order a REPLACE would change: it is not counted.
    intent_id: IntentId | None = None
    # At its door: those that wait behind it are not counted.
    action_id: ActionId | None = None
    idempotency_key: str | None = None
    # For how long equal orders count.
    window_millis: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFacts:
    """What was counted; None where it was not asked for."""

    # The database's clock, and the epochs of the organization and of the account, under the lock.
    now: datetime
    epochs: tuple[int, int]
    # Whether a command was recorded under the key before.
    is_replay: bool
    # What the account has and may get.
    exposure: Exposure | None
    # When equal orders were accepted, newest first.
    equal_orders: Sequence[datetime] | None


class CountedAccept(Protocol):
    """One transaction under the account's lock: what is counted in it is true until it ends."""

    @property
    def facts(self) -> CountedFacts:
        """What was counted for the command."""

    async def judged(self, rules: Sequence[Rule], *, count: bool) -> dict[tuple[str, str], Sequence[datetime]]:
        """When commands were judged by these rules of rates before, newest first; no more than each allows.

        If asked to, this command counts for them from now on, whatever becomes of it.
        """

    async def accept(self, submission: Submission, deadline: datetime | None) -> Acceptance:
        """Run the accept step inside this transaction."""

    async def refuse(self, receipt_id: ReceiptId, receipt: Receipt) -> None:
        """Keep the receipt of a command that is not recorded."""


class CountedAcceptStore(Protocol):
    """Opens such transactions."""

    def counting(self, account: TradingAccount, question: Counting) -> AbstractAsyncContextManager[CountedAccept]:
        """A transaction under the account's lock, in which this has been counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """A receipt as it was written, with what proves it."""

    receipt_id: ReceiptId
    account_id: AccountId
    # None for a command that was not recorded.
    intent_id: IntentId | None
    seq: int | None
    verdict: str
    body: str
    hash: bytes
    # Refusals of an account are numbered; None for any other receipt, and for refusals of before they were.
    refusal_no: int | None
    created_at: datetime

    @property
    def place(self) -> int:
        """Where it stands among those of its intent: a refusal at the door follows the acceptance of its command."""
        return 2 * (self.seq or 0) + (self.refusal_no is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHeads:
    """How many actions and refusals an account has, and where the chains over them stand there."""

    actions: int
    chain_head: bytes
    refusals: int
    refusal_head: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedAction:
    """An action with what its chain is made of."""

    action: IntentAction
    # The number of the first action that was accepted together with it.
    chained_from: int
    hash: bytes
    receipt_text: str
    receipt_hash: bytes


class ReceiptStore(Protocol):
    """Receipts and the chains they are in, read."""

    async def find_receipt(
        self, organization_id: OrganizationId, account_id: AccountId, receipt_id: ReceiptId
    ) -> StoredReceipt | None:
        """One of the account."""

    async def receipts_of_intent(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, after: int, limit: int
    ) -> list[StoredReceipt]:
        """Those of an intent's commands and of refusals at their doors, by their place, from the one after a place."""

    async def refusals_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[StoredReceipt]:
        """Refusals of the account by their number, from the one after a number."""

    async def chain_heads(self, organization_id: OrganizationId, account_id: AccountId) -> ChainHeads:
        """Where both chains of the account stand; rows up to there change no more."""

    async def chained_actions(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[ChainedAction]:
        """Actions of the account by their number, from the one after a number."""
