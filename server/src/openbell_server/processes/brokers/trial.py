"""One trial of a broker's sandbox: the session, through a proxy that loses answers, and what must be cancelled."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid4, uuid5

from openbell_server.adapters.broker_trials.cutting_proxy import cutting_proxy
from openbell_server.adapters.broker_trials.sent_orders_file import AnotherTrial, SentOrdersFile
from openbell_server.application.broker_trials.clean_up import clean_up
from openbell_server.application.broker_trials.measure import measure
from openbell_server.application.broker_trials.subject import Measurement, Subject, TrialStopped
from openbell_server.application.ports.broker import BrokerDefinition, BrokerSession, QueryFailed
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignInRefused
from openbell_server.domain.identifiers import AccountId, ActionId, Symbol, client_order_id

# A buy this far below the market rests.
_DISTANCE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    definition: BrokerDefinition
    # Of the paper environment.
    address: str
    secrets: Secrets
    symbol: Symbol
    quantity: Decimal
    price: Decimal
    # Where orders are noted before they are sent.
    folder: Path
    account_id: AccountId | None = None


async def run_trial(plan: TrialPlan) -> list[Measurement]:
    """Measure, and cancel every order of this run and of an earlier one that was killed."""
    account_id = plan.account_id or _account_id(plan)
    try:
        sent = SentOrdersFile(plan.folder / f"{plan.definition.name}-{account_id}.jsonl")
    except AnotherTrial:
        raise TrialStopped("Another trial runs with this account. Wait for its end.") from None
    try:
        async with _session(plan, plan.address, account_id) as session:
            await _require_distance(plan, session, account_id)
        async with cutting_proxy(plan.address) as proxy, _session(plan, proxy.address, account_id) as session:
            subject = Subject(
                definition=plan.definition,
                session=session,
                account_id=account_id,
                symbol=plan.symbol,
                quantity=plan.quantity,
                price=plan.price,
                sent=sent,
                new_name=lambda: client_order_id(ActionId(uuid4())),
                now=lambda: datetime.now(UTC),
                monotonic=time.monotonic,
            )
            await clean_up(subject)
            try:
                measurements = await measure(subject, proxy.cut_next)
            except BaseException:
                # A trial that ended early may have sent an order whose outcome it does not know.
                await clean_up(subject)
                raise
            await clean_up(subject, may_arrive=False)
            return measurements
    finally:
        sent.close()


@asynccontextmanager
async def _session(plan: TrialPlan, address: str, account_id: AccountId) -> AsyncIterator[BrokerSession]:
    """Signed in, at the paper environment and at no other."""
    session = await plan.definition.open_session({Environment.PAPER: address})
    try:
        if plan.secrets:
            signed_in = await session.sign_in(account_id, Environment.PAPER, plan.secrets)
            if isinstance(signed_in, SignInRefused):
                raise TrialStopped(f"The broker refused to sign in: {signed_in.broker_text} ({signed_in.broker_code})")
        yield session
    except QueryFailed as error:
        raise TrialStopped(f"The broker does not answer: {error}.") from error
    finally:
        await session.close()


async def _require_distance(plan: TrialPlan, session: BrokerSession, account_id: AccountId) -> None:
    for quote in await session.quotes(account_id, [plan.symbol]):
        if quote.ask is not None and quote.ask < plan.price * _DISTANCE:
            raise TrialStopped(
                f"{plan.symbol} is offered at {quote.ask}: an order at {plan.price} could fill. Choose a"
                " --price of at most half of that, or another --symbol."
            )


def _account_id(plan: TrialPlan) -> AccountId:
    """The same in every run with the same credential."""
    form = plan.definition.credentials
    shown = [] if form is None else [plan.secrets.get(each.name, "") for each in form.fields if not each.secret]
    return AccountId(uuid5(NAMESPACE_URL, "/".join([plan.definition.name, plan.address, *shown])))
