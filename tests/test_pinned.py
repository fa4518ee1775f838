"""What robots do stays what it was when the first version was restructured."""

import json

import pytest

import pinned
from decmarvel.simulation import roster
from paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]

PINNED = json.loads((ROOT / "tests" / "pinned.json").read_text())


@pytest.mark.parametrize("name", pinned.PLANNERS)
def test_missions_are_the_same_bit_for_bit(name):
    assert list(pinned.rows(name)) == PINNED[name]


def test_every_planner_of_the_roster_that_needs_no_file_of_weights_is_pinned():
    assert set(PINNED) == {name for name, entry in roster.PLANNERS.items() if entry.packaged}


def test_a_team_of_eight_is_pinned():
    assert any(row["trial"][1] == 8 for rows in PINNED.values() for row in rows)
