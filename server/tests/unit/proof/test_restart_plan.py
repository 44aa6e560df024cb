"""Real processes die at every crash point."""

from openbell_server.application.crash_points import POINTS
from proof.restart import DEATHS, SIZES


def test_every_crash_point_is_died_at() -> None:
    assert {point for groups in DEATHS.values() for points in groups for point in points} == POINTS


def test_every_process_is_killed_often_enough_for_all_its_points() -> None:
    assert max(len(groups) for groups in DEATHS.values()) <= SIZES["full"].kills
