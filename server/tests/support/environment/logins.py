"""A login for tests that play every process, and operators, on one pool."""

from openbell_server.adapters.postgres.connection import LOGIN_ROLES, Role
from openbell_server.adapters.postgres.migrate import allow_logins, logins_of
from openbell_server.devtools.stack import LOGINS

TEST_LOGIN = "openbell_test_login"
# Only executors open what is sealed, also in tests.
TEST_ROLES = tuple(role for role in Role if role is not Role.VAULT)
API_LOGIN, EXECUTOR_LOGIN = f"{LOGINS}_api", f"{LOGINS}_executor"
# The roles of one organization's transactions.
TENANT_ROLES = (Role.READER, Role.TENANT, Role.EXECUTION, Role.DELIVERY)
PROCESSES = tuple(LOGIN_ROLES)


def allow_every_login(url: str) -> None:
    """The login of each process, and the one of tests."""
    allow_logins(url, {**logins_of(LOGINS), TEST_LOGIN: TEST_ROLES})
