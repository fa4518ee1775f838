"""What robots do stays what it was when the first version was restructured."""

import json

import pytest

import pinned
from paths import ROOT

pytestmark = pytest.mark.slow

PINNED = json.loads((ROOT / "tests" / "pinned.json").read_text())


@pytest.mark.parametrize("name", pinned.PLANNERS)
def test_missions_are_the_same_bit_for_bit(name):
    assert list(pinned.rows(name)) == PINNED[name]


def test_every_planner_that_ships_weights_or_needs_none_is_pinned():
    assert set(PINNED) == set(pinned.PLANNERS)
