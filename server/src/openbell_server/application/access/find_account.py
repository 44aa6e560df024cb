"""Find the account that a caller names, and check that the caller may use it for an operation."""

from typing import Final

from openbell_server.application.access.ports.account_records import AccountRecords, AccountStore
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation, admit_to_account
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId

_EDITS: Final = {Operation.EDIT_ACCOUNTS, Operation.EDIT_CONTROLS, Operation.EDIT_CREDENTIALS}


async def require_organization(records: AccountRecords, caller: Principal) -> None:
    """Raises Problem if there is no such organization; only a service account can name one that does not exist."""
    if caller.kind is not PrincipalKind.SERVICE:
        return
    if await records.is_organization_disabled(caller.organization_id) is None:
        raise Problem("not_found", "there is no such organization")


async def find_account(
    accounts: AccountStore, caller: Principal, operation: Operation, account_id: AccountId
) -> TradingAccount:
    """Raises Problem if there is no such account, if the caller may not, or for an edit in a disabled organization."""
    account = await accounts.find_account(caller.organization_id, account_id)
    if account is None:
        raise Problem("not_found", "there is no such account")
    admit_to_account(caller, operation, account)
    if operation in _EDITS and account.organization_disabled:
        raise Problem("organization_disabled", "the organization is disabled")
    return account
