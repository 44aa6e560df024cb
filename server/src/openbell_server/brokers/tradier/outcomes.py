"""Which answers of Tradier to a command are definite: those listed here, and nothing else."""

from typing import Final

from openbell_server.brokers.http_client import Reply, UnreadableAnswer, decoded
from openbell_server.brokers.tradier.wire import CommandBody, Fault, FaultBody
from openbell_server.domain.broker_orders import Accepted, NotSent, Outcome, Refused, Unknown

POST: Final = "POST"
DELETE: Final = "DELETE"
_OK: Final = 200
_TAKEN: Final = "ok"
_TEXT_LENGTH_MAX: Final = 500

# The gateway counts and knows tokens before anything reaches Tradier, and says so with codes of its own.
RATE_LIMITED: Final = (429, "policies.ratelimit.QuotaViolation")
TURNED_AWAY: Final = frozenset(
    {
        (401, "keymanagement.service.invalid_access_token"),
        (401, "keymanagement.service.access_token_expired"),
    }
)
# Documented for an order that risk management or a market turned down: by code, under 200, without an order's id.
# Not listed on purpose: OmsInternalError and OmsUnavailable, which say that something broke, and not when.
ORDER_CODES: Final = frozenset(
    {
        # The account may not.
        "AccountDisabled",
        "AccountIsNotApproved",
        "AccountMarginRuleViolation",
        "AssetTradingNotConfiguredForAccount",
        "DayTraderPatternRestriction",
        "OrderIsNotAllowedForAccount",
        "ShortStockTradingDeniedForAccount",
        "TooSmallEquityForDayTrading",
        "TradingDeniedForAccount",
        "UserDisabled",
        # It has not enough.
        "DayTradingBuyingPowerExceeded",
        "InitialMargin",
        "LongPositionCrossZero",
        "MaintenanceMargin",
        "ShortPositionCrossZero",
        "TotalInitialMargin",
        # The order cannot be.
        "BuyStopOrderStopPriceLessAsk",
        "IncorrectOrderQuantity",
        "IncorrectTimeInForce",
        "LimitPriceUndefined",
        "MarketOrderIsGtc",
        "OrderPriceIsInvalid",
        "OrderQuantity",
        "OrderWithDifferentSide",
        "SecurityUndefined",
        "SellShortOrderLastPriceBelow5",
        "SellStopOrderStopPriceGreaterBid",
        "ShortOrderIsGtc",
        "ShortTradingDeniedForSecurity",
        "StopPriceUndefined",
        "TradingDeniedForSecurity",
        "UnexpectedBuyOrder",
        "UnexpectedSellOrder",
        "UnexpectedSellShortOrder",
        "WashTradeAttempt",
    }
)
# Of a cancel only what is about the account: the rest is about new orders, and says nothing of an old one's end.
CANCEL_CODES: Final = frozenset({"AccountDisabled", "TradingDeniedForAccount", "UserDisabled"})
_CODES: Final = {POST: ORDER_CODES, DELETE: CANCEL_CODES}
# Plain words, each seen under 400 only, where there is no code: by how they begin.
TEXTS: Final = {
    # A field cannot be read, so there was no order to make.
    POST: "Invalid parameter, ",
    # The order ended before: there was nothing to cancel.
    DELETE: "order already in finalized state: ",
}
_BAD_REQUEST: Final = 400
# Not listed on purpose: 401 with "Unauthorized Account", which an order gets that is not there, a wrong account, and
# one whose rights were taken away a moment ago.


def fault_of(reply: Reply) -> Fault | None:
    """What the gateway says, if it is the gateway that says it."""
    try:
        return decoded(reply.body, FaultBody).fault
    except UnreadableAnswer:
        return None


def is_rate_limited(reply: Reply) -> bool:
    """Whether we ask too often."""
    fault = fault_of(reply)
    return fault is not None and (reply.status, fault.detail.errorcode) == RATE_LIMITED


def outcome_of(method: str, reply: Reply, order_id: str | None = None) -> Outcome:
    """What an answer says of a command, which was about this order unless it was to make one."""
    if reply.status == _OK:
        return _answered(method, reply, order_id)
    fault = fault_of(reply)
    if fault is not None:
        place = (reply.status, fault.detail.errorcode)
        if place == RATE_LIMITED:
            return NotSent(fault.faultstring, reply.retry_after)
        if place in TURNED_AWAY:
            return Refused(fault.detail.errorcode, fault.faultstring)
        return Unknown(f"the gateway answered {reply.status}: {fault.faultstring}")
    text = reply.body[:_TEXT_LENGTH_MAX].decode("utf-8", "replace")
    if reply.status == _BAD_REQUEST and text.startswith(TEXTS[method]):
        return Refused(str(reply.status), text)
    return Unknown(f"the broker answered {reply.status}")


def _answered(method: str, reply: Reply, order_id: str | None) -> Outcome:
    try:
        body = decoded(reply.body, CommandBody)
    except UnreadableAnswer as trouble:
        return Unknown(f"{reply.status} with a body that cannot be read: {trouble}")
    if body.order is None and body.errors is not None:
        said = [body.errors.error] if isinstance(body.errors.error, str) else body.errors.error
        code = next((each for each in said if each in _CODES[method]), None)
        return Unknown("; ".join(said)) if code is None else Refused(code, "; ".join(said))
    if body.order is None or body.errors is not None or body.order.status != _TAKEN:
        return Unknown(f"{reply.status} that neither takes the command nor refuses it")
    if order_id is not None and str(body.order.id) != order_id:
        return Unknown(f"{reply.status} about another order: {body.order.id}")
    return Accepted(str(body.order.id))
