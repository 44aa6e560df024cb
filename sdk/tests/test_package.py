"""Tests of the client library."""

import openbell


def test_the_package_says_what_it_is() -> None:
    assert openbell.__doc__
