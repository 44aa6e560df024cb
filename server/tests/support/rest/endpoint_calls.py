"""Every endpoint of the document, as both clients call it and as a command does."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from openbell import GivenPrice, Market

INTENT: Final = "0192f0c1-0000-7000-8000-000000000001"
Call = Callable[[Any], Any]
RULES: Final[list[Mapping[str, Any]]] = [{"scope": "ACCOUNT", "code": "QTY_MAX", "parameters": {"quantity": "1"}}]
PRICE: Final = GivenPrice(broker="paper", symbol="AAPL", price=1)  # type: ignore[arg-type]


# How a client calls it, and the words of a command that does.
CALLS: Final[dict[str, tuple[Call, list[str]]]] = {
    "listEffectiveControls": (lambda c: c.effective_controls("AAPL"), ["controls", "effective", "AAPL"]),
    "listControlKinds": (lambda c: c.control_kinds(), ["controls", "kinds"]),
    "listRules": (lambda c: c.rules(symbol="AAPL"), ["controls", "rules", "list", "--symbol", "AAPL"]),
    "showRule": (
        lambda c: c.rule("QTY_MAX", organization=True),
        ["controls", "rules", "show", "QTY_MAX", "--organization"],
    ),
    "putRule": (
        lambda c: c.set_rule("QTY_MAX", {"quantity": "1"}, reason="r"),
        ["controls", "rules", "set", "QTY_MAX", '{"quantity": "1"}', "--reason", "r"],
    ),
    "deleteRule": (
        lambda c: c.remove_rule("QTY_MAX", api_key_id="k"),
        ["controls", "rules", "remove", "QTY_MAX", "--api-key-id", "k"],
    ),
    "listSwitches": (lambda c: c.switch(), ["controls", "switch", "show"]),
    "putSwitch": (
        lambda c: c.set_switch("HALTED", reason="r"),
        ["controls", "switch", "set", "HALTED", "--reason", "r"],
    ),
    "listHeartbeats": (lambda c: c.heartbeats(), ["heartbeat", "show"]),
    "putHeartbeat": (lambda c: c.send_heartbeat(30), ["heartbeat", "arm", "30"]),
    "deleteHeartbeat": (lambda c: c.disarm_heartbeats(), ["heartbeat", "disarm"]),
    "listControlChanges": (lambda c: c.control_changes("SWITCH"), ["controls", "changes", "SWITCH"]),
    "showMe": (lambda c: c.operations.me(), ["me"]),
    "listBrokers": (lambda c: c.brokers(), ["brokers"]),
    "listCalendars": (lambda c: c.calendars(), ["calendars"]),
    "listMarketSessions": (lambda c: c.market_sessions("XNYS"), ["calendars", "XNYS"]),
    "createAccount": (
        lambda c: c.accounts.create("n", broker="paper", environment="paper"),
        ["accounts", "create", "n"],
    ),
    "listAccounts": (lambda c: c.accounts.list(), ["accounts", "list"]),
    "showAccount": (lambda c: c.accounts.show(), ["accounts", "show"]),
    "changeAccount": (lambda c: c.accounts.change(name="n"), ["accounts", "rename", "a", "n"]),
    "closeAccount": (lambda c: c.accounts.close(), ["accounts", "close", "a"]),
    "showFaultPlan": (lambda c: c.fault_plan(), ["paper", "show"]),
    "putFaultPlan": (lambda c: c.set_fault_plan({"hang": 0.1}), ["paper", "break", "hang=0.1"]),
    "deleteFaultPlan": (lambda c: c.remove_fault_plan(), ["paper", "mend"]),
    "putCredential": (lambda c: c.accounts.set_credential({"k": "v"}), ["credentials", "set", "--file", "-"]),
    "showCredential": (lambda c: c.accounts.credential(), ["credentials", "show"]),
    "deleteCredential": (lambda c: c.accounts.remove_credential(), ["credentials", "remove"]),
    "verifyCredential": (lambda c: c.accounts.verify_credential(), ["credentials", "verify"]),
    "submitIntent": (lambda c: c.buy("AAPL", Market(1)), ["intents", "create", "AAPL", "BUY", "1"]),
    "listIntents": (lambda c: c.intents(), ["intents", "list"]),
    "showStatistics": (lambda c: c.stats(), ["intents", "stats"]),
    "showIntent": (lambda c: c.intent("i"), ["intents", "show", INTENT]),
    "listActions": (lambda c: c.actions("i"), ["intents", "history", INTENT]),
    "listExternalOrders": (lambda c: c.external_orders(), ["orders", "external"]),
    "listOrders": (lambda c: c.orders(), ["orders", "list"]),
    "showOverview": (lambda c: c.overview(), ["overview"]),
    "cancelOrders": (lambda c: c.cancel_orders(["i"]), ["orders", "cancel", INTENT]),
    "submitDeskCommand": (lambda c: c.cancel_all(), ["orders", "cancel-all"]),
    "listDeskCommands": (lambda c: c.desk_commands(), ["orders", "desk-commands"]),
    "showDeskCommand": (lambda c: c.desk_command("d"), ["orders", "desk-command", INTENT]),
    "listDeskOrders": (lambda c: c.desk_orders("d"), ["orders", "desk-command", INTENT]),
    "listExecutions": (lambda c: c.executions(), ["executions", "list"]),
    "listPositions": (lambda c: c.positions(), ["positions", "list"]),
    "listProfit": (lambda c: c.profit(), ["positions", "profit"]),
    "showBalances": (lambda c: c.balances(), ["balances"]),
    "listPositionChanges": (lambda c: c.position_changes(), ["positions", "changes"]),
    "listEvents": (lambda c: c.event_history(), ["events", "list"]),
    "evaluateCommand": (
        lambda c: c.evaluate(symbol="AAPL", side="BUY", spec=Market(1)),
        ["intents", "create", "AAPL", "BUY", "1", "--dry-run"],
    ),
    "listReceipts": (lambda c: c.refusals(), ["receipts", "refusals"]),
    "showReceipt": (lambda c: c.receipt("r"), ["receipts", "show", "r"]),
    "listChainedActions": (lambda c: c.chained_actions(), ["receipts", "export", "--output", "{folder}/a"]),
    "putSymbolControl": (
        lambda c: c.set_symbol_control("AAPL", disabled=True, reason="r"),
        ["controls", "disable", "AAPL", "--reason", "r"],
    ),
    "patchSymbolTime": (
        lambda c: c.patch_symbol_time("AAPL", timezone="UTC"),
        ["controls", "window", "AAPL", "--timezone", "UTC"],
    ),
    "listHaltReports": (lambda c: c.halt_reports(), ["halt-report"]),
    "backtestRules": (lambda c: c.backtest(RULES), ["controls", "backtest", "--rules", "{folder}/rules.json"]),
    "putReferencePrices": (
        lambda c: c.give_references([PRICE]),
        ["prices", "give", "AAPL=1", "--broker", "paper", "--access-token", "t"],
    ),
    "listReferencePrices": (lambda c: c.reference_prices(), ["prices", "show"]),
    "createWebhook": (
        lambda c: c.webhooks.create("https://e.com/", ["broker_trade"]),
        ["webhooks", "create", "https://e.com/", "broker_trade"],
    ),
    "listWebhooks": (lambda c: c.webhooks.list(), ["webhooks", "list"]),
    "showWebhook": (lambda c: c.webhooks.show("w"), ["webhooks", "show", "w"]),
    "changeWebhook": (lambda c: c.webhooks.change("w", status="PAUSED"), ["webhooks", "pause", "w"]),
    "deleteWebhook": (lambda c: c.webhooks.delete("w"), ["webhooks", "delete", "w"]),
    "rotateWebhookSecret": (lambda c: c.webhooks.rotate_secret("w"), ["webhooks", "rotate", "w"]),
    "testWebhook": (lambda c: c.webhooks.test("w"), ["webhooks", "test", "w"]),
    "listWebhookLanes": (lambda c: c.webhooks.lanes("w"), ["webhooks", "lanes", "w"]),
    "replayWebhook": (lambda c: c.webhooks.replay("w", 1), ["webhooks", "replay", "w", "--after", "1"]),
    "listWebhookAttempts": (lambda c: c.webhooks.attempts("w"), ["webhooks", "attempts", "w"]),
    "createApiKey": (
        lambda c: c.api_keys.create("n", environment="paper", permissions=["intent:read"]),
        ["keys", "create", "n", "intent:read"],
    ),
    "listApiKeys": (lambda c: c.api_keys.list(), ["keys", "list"]),
    "showWorstCase": (lambda c: c.api_keys.worst_case("k"), ["keys", "worst-case", "k"]),
    "showApiKey": (lambda c: c.api_keys.show("k"), ["keys", "show", "k"]),
    "changeApiKey": (lambda c: c.api_keys.change("k", disabled=True), ["keys", "disable", "k"]),
    "revokeApiKey": (lambda c: c.api_keys.revoke("k"), ["keys", "revoke", "k"]),
    "validateApiKey": (lambda c: c.api_keys.validate(), ["keys", "whose"]),
    "listAuditEntries": (lambda c: c.audit.list(), ["audit", "list"]),
    "findOrganization": (lambda c: c.operations.organization("p", "o"), ["operations", "organization", "p", "o"]),
    "deleteMe": (lambda c: c.operations.delete_me(), ["users", "delete-me", "--yes"]),
    "showOutboxHealth": (lambda c: c.operations.outbox_health(), ["operations", "account-outbox"]),
    "showOutboxes": (lambda c: c.operations.outboxes(), ["operations", "outboxes"]),
    "checkHealth": (lambda c: c.operations.health(), ["operations", "health"]),
}
