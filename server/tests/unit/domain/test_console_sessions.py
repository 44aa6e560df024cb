"""Where a sign-in may lead, and when a token is renewed."""

import pytest

from openbell_server.domain.access.console_sessions import local_path, refresh_ahead


@pytest.mark.parametrize(
    "path",
    [
        *("/console/", "/console/accounts/1", "/console/blotter?state=WORKING&symbol=%2FES", "/console/a.b"),
        *("/console/sessions", "/console/loginish", "/console/a?next=//x"),
    ],
)
def test_a_page_of_the_console_is_kept(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *(None, "", "/", "/console", "console/", "https://evil.example/console/", "//evil.example", "/\\evil.example"),
        *("/console/../v1", "/console//evil.example", "/console/\\evil", "/console/a b", "/console/a\n", "/console/ä"),
        *(
            "/console/login",
            "/console/login?then=x",
            "/console/callback?code=1",
            "/console/session",
            "/console/assets/x",
        ),
        *("/console/logout", "/console/logout-everywhere", "/v1/me", "/console/#x", "/console/..%2f"),
    ],
)
def test_everything_else_leads_to_the_first_page(path: str | None) -> None:
    assert local_path(path) == "/console/"


@pytest.mark.parametrize(("lifetime", "ahead"), [(3600, 60), (120, 60), (30, 15)])
def test_a_token_is_renewed_a_minute_ahead_or_after_half_its_life(lifetime: float, ahead: float) -> None:
    assert refresh_ahead(lifetime) == ahead
