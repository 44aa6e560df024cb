"""The whole path to a real broker, in processes: a credential, an order that fills, one that is cancelled."""

from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from openbell import Client, Limit, Market
from openbell_server.brokers.paper.profiles import PROFILES
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import LocalPlatform
from support.brokers.broker_beside import broker_beside, sign_in

REAL = sorted(set(BROKERS) - set(PROFILES))


@pytest.mark.parametrize("broker", REAL)
def test_an_account_with_a_credential_trades_there(broker: str, tmp_path: Path) -> None:
    with LocalPlatform(tmp_path, brokers=[broker]) as platform, broker_beside(platform, broker) as made:
        environment, (account_id,) = platform.client_environment(), platform.seeded.account_ids
        key, url = environment["OPENBELL_API_KEY"], environment["OPENBELL_URL"]
        with (
            httpx.Client(base_url=url, headers={"x-api-key": key}, timeout=60, trust_env=False) as http,
            Client(api_key=key, url=url, account_id=str(account_id)) as client,
        ):
            assert sign_in(http, account_id, made) == "VALID"
            filled = client.wait(client.buy("AAPL", Market(3)).intent_id).execution
            assert filled is not None
            assert (filled.status, filled.filled_quantity) == ("FILLED", Decimal(3))
            resting = client.buy("AAPL", Limit(2, price="0.01")).intent_id

            def is_now(state: str) -> bool:
                execution = client.intent(resting).execution
                return execution is not None and execution.status == state

            assert wait_until(lambda: is_now("NEW"), 180)
            client.cancel_intent(resting)
            assert wait_until(lambda: is_now("CANCELED"), 180)
        platform.stack.stop("executor")
        assert len(made.writes) == 3
