"""The order of outbox rows: what may be resolved once some of them are confirmed."""

from openbell_server.domain.events.outbox import ClaimedRow, confirmed_in_order


def a_row(outbox_id: int, account: str) -> ClaimedRow:
    return ClaimedRow(outbox_id, claim_token=1, attempts=1, in_order_of=account, event_type="account.changed")


def test_no_row_after_an_unconfirmed_one_of_its_account_is_resolved_and_other_accounts_go_on() -> None:
    rows = [a_row(1, "a"), a_row(2, "b"), a_row(3, "a"), a_row(4, "b"), a_row(5, "a")]
    resolved = confirmed_in_order(rows, {1, 2, 4, 5})
    assert [row.outbox_id for row in resolved] == [1, 2, 4]
    assert confirmed_in_order(rows, {3, 5}) == []
    assert confirmed_in_order(reversed(rows), {1, 2, 3, 4, 5}) == rows
