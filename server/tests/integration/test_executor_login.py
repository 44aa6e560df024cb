"""What executors do beside sending works with the rights of their own login."""

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.money.books import ExecutorBookStore
from openbell_server.application.money.save_books import SaveBooks
from openbell_server.processes.executor_upkeep import loss_measurement
from support.rest.rest_api import RecordedHints
from support.tenancy.halts import ALL_SLOTS
from support.tenancy.populated_tenant import PopulatedTenant


async def test_an_executor_saves_books_and_measures_losses_with_its_own_login(
    us: PopulatedTenant, executor_pool: Pool
) -> None:
    assert us.tenant.account.slot in ALL_SLOTS
    store = ExecutorBookStore(executor_pool)
    await SaveBooks(store, store, events_behind=0)(ALL_SLOTS)
    measure = loss_measurement(executor_pool, None, RecordedHints())  # type: ignore[arg-type]
    found = await measure.store.accounts_with_loss_limits_across_organizations(ALL_SLOTS)
    assert us.tenant.account.id in {account_id for _, account_id, _ in found}
    await measure.sweep(ALL_SLOTS)
    assert dict(measure.failures) == {}
