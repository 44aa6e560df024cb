"""Which of Tradier's answers to a command are definite: only those listed here."""

from typing import Final

from openbell_server.brokers.http_client import Reply, UnreadableAnswer, decoded
from openbell_server.brokers.tradier.wire import CommandBody, Fault, FaultBody
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Outcome, Refused, Unknown

POST: Final = "POST"
DELETE: Final = "DELETE"
_OK: Final = 200
_TAKEN: Final = "ok"
_TEXT_LENGTH_MAX: Final = 500

# The gateway checks limits and tokens before a request reaches Tradier, and answers with its own codes.
RATE_LIMITED: Final = (429, "policies.ratelimit.QuotaViolation")
TURNED_AWAY: Final = frozenset(
    {
        (401, "keymanagement.service.invalid_access_token"),
        (401, "keymanagement.service.access_token_expired"),
    }
)
# Documented for an order that risk management or a market rejected: the code comes with 200 and without an order id.
# Not listed on purpose: OmsInternalError and OmsUnavailable, which report a failure but not whether the order was
# accepted before.
ORDER_CODES: Final = frozenset(
    {
        # The account lacks permission.
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
        # The account lacks funds or shares.
        "DayTradingBuyingPowerExceeded",
        "InitialMargin",
        "LongPositionCrossZero",
        "MaintenanceMargin",
        "ShortPositionCrossZero",
        "TotalInitialMargin",
        # The order is invalid.
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
# For a cancel only codes about the account: the others concern new orders and prove nothing about an existing one.
CANCEL_CODES: Final = frozenset({"AccountDisabled", "TradingDeniedForAccount", "UserDisabled"})
_CODES: Final = {POST: ORDER_CODES, DELETE: CANCEL_CODES}
# Texts without a code, seen only with 400; compared by their beginning.
TEXTS: Final = {
    # A field is invalid, so no order was created.
    POST: "Invalid parameter, ",
    # The order had ended, so there was nothing to cancel.
    DELETE: "order already in finalized state: ",
}
_BAD_REQUEST: Final = 400
# Not listed on purpose: 401 with "Unauthorized Account", which is the answer for an unknown order, a wrong account, and
# an account that just lost its permission.


def fault_of(reply: Reply) -> Fault | None:
    """The gateway's error, or None if the body is not in its format."""
    try:
        return decoded(reply.body, FaultBody).fault
    except UnreadableAnswer:
        return None


def is_rate_limited(reply: Reply) -> bool:
    fault = fault_of(reply)
    return fault is not None and (reply.status, fault.detail.errorcode) == RATE_LIMITED


def outcome_of(method: str, reply: Reply, order_id: str | None = None) -> Outcome:
    """The outcome of a command; order_id is the order it names, None for a new order."""
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
        texts = [body.errors.error] if isinstance(body.errors.error, str) else body.errors.error
        code = next((each for each in texts if each in _CODES[method]), None)
        return Unknown("; ".join(texts)) if code is None else Refused(code, "; ".join(texts))
    if body.order is None or body.errors is not None or body.order.status != _TAKEN:
        return Unknown(f"{reply.status} that neither takes the command nor refuses it")
    if order_id is not None and str(body.order.id) != order_id:
        return Unknown(f"{reply.status} about another order: {body.order.id}")
    return Accepted(str(body.order.id))
