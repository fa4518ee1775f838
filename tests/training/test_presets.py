"""The presets of training, and settings from the command line."""

import dataclasses

import pytest
import typer

from decmarvel.cli.train import with_setting
from decmarvel.core.errors import TrainingError
from decmarvel.training.loop import PRESETS
from decmarvel.training.run import RunSettings

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_every_ablation_changes_one_thing():
    fast = dataclasses.asdict(PRESETS["fast"])

    def differences(one, other, path=""):
        for name in one:
            if isinstance(one[name], dict):
                yield from differences(one[name], other[name], f"{path}{name}.")
            elif one[name] != other[name]:
                yield path + name

    changed = {name: list(differences(fast, dataclasses.asdict(preset))) for name, preset in PRESETS.items()}
    assert changed.pop("paper") == [
        "capacity",
        "first_rows",
        "collect.missions",
        "sac.batch",
        "sac.steps",
        "sac.post_share",
        "sac.actor_rate",
        "sac.critic_rate",
        "sac.alpha_rate",
        "sac.polyak_rate",
    ]
    paper = PRESETS["paper"].sac
    assert (paper.steps, paper.post_share, paper.polyak_rate, paper.entropy_share) == (1, 0.5, 0.003, 0.5)
    ours = changed.pop("advised")
    assert not any(name.startswith("curriculum") or name == "privilege" for name in ours)
    assert {name for name in ours if name.startswith("collect")} == {"collect.team_sizes", "collect.past_success"}
    assert {"network.identity", "network.advice", "sac.clip", "rewards.hurry", "rewards.covered"} <= set(ours)
    predecessor = {name.split(".")[0] for name in changed.pop("marvel")}
    assert predecessor == {"privilege", "rewards", "curriculum", "sac", "network"}
    assert changed == {
        "fast": [],
        "no-top": ["privilege"],
        "no-curriculum": ["curriculum.adaptive"],
        "no-dual-head": ["sac.dual_head"],
    }


def test_every_setting_can_be_changed_from_the_command_line():
    fast = PRESETS["fast"]
    assert with_setting(fast, "updates", "3", "") == dataclasses.replace(fast, updates=3)
    assert with_setting(fast, "privilege", "none", "").privilege == "none"
    assert with_setting(fast, "sac.dual_head", "False", "").sac.dual_head is False
    assert with_setting(fast, "sac.discount", "0.5", "").sac == dataclasses.replace(fast.sac, discount=0.5)
    assert with_setting(fast, "collect.team_sizes", "2,8", "").collect.team_sizes == (2, 8)
    assert with_setting(RunSettings(), "evaluation.budgets_m", "720", "").evaluation.budgets_m == (720.0,)
    for name, text in (
        ("sac.batsh", "1"),
        ("nothing", "1"),
        ("updates", "x"),
        ("updates.more", "1"),
        ("privilege", "x"),
    ):
        with pytest.raises(typer.BadParameter, match=f"{name}={text}"):
            with_setting(fast, name, text, f"{name}={text}")
    with pytest.raises(TrainingError, match="heads must divide"):
        with_setting(fast, "network.heads", "3", "")
