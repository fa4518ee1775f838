"""The presets of training, and settings from the command line."""

import dataclasses

import pytest
import typer

from decmarvel.cli.train import with_setting
from decmarvel.core.errors import TrainingError
from decmarvel.training.methods.presets import PRESETS
from decmarvel.training.run import RunSettings

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_every_ablation_changes_one_thing():
    fast = dataclasses.asdict(PRESETS["fast"])

    def differences(one, other, path=""):
        for name in one | other:
            if isinstance(one.get(name), dict):
                yield from differences(one[name], other[name], f"{path}{name}.")
            elif name not in one or name not in other or one[name] != other[name]:
                yield path + name

    changed = {name: list(differences(fast, dataclasses.asdict(preset))) for name, preset in PRESETS.items()}
    assert changed.pop("paper") == [
        "capacity",
        "first_rows",
        "collect.missions",
        "algorithm.batch",
        "algorithm.steps",
        "algorithm.post_share",
        "algorithm.actor_rate",
        "algorithm.critic_rate",
        "algorithm.polyak_rate",
        "algorithm.alpha_rate",
    ]
    paper = PRESETS["paper"].algorithm
    assert (paper.steps, paper.post_share, paper.polyak_rate, paper.entropy_share) == (1, 0.5, 0.003, 0.5)
    ours = changed.pop("options")
    assert not any(name.startswith("curriculum") or name == "privilege" for name in ours)
    assert {name for name in ours if name.startswith("collect")} == {"collect.team_sizes", "collect.past_success"}
    assert {"actor.options", "algorithm.clip", "reward.hurry", "reward.covered"} <= set(ours)
    assert {"reward.fov", "algorithm.alpha_rate", "actor.token_width", "critic.dual_head"} <= set(ours), "and has not"
    predecessor = {name.split(".")[0] for name in changed.pop("marvel")}
    assert predecessor == {"privilege", "reward", "curriculum", "algorithm", "actor", "critic"}
    assert changed == {
        "fast": [],
        "no-top": ["privilege"],
        "no-curriculum": ["curriculum.adaptive"],
        "no-dual-head": ["critic.dual_head"],
    }


def test_every_setting_can_be_changed_from_the_command_line():
    fast = PRESETS["fast"]
    assert with_setting(fast, "updates", "3", "") == dataclasses.replace(fast, updates=3)
    assert with_setting(fast, "privilege", "none", "").privilege == "none"
    assert with_setting(fast, "critic.dual_head", "False", "").critic.dual_head is False
    faded = with_setting(fast, "algorithm.discount", "0.5", "").algorithm
    assert faded == dataclasses.replace(fast.algorithm, discount=0.5)
    assert with_setting(fast, "reward.trail", "0", "").reward == dataclasses.replace(fast.reward, trail=0.0)
    assert with_setting(PRESETS["options"], "actor.options", "8", "").actor.options == 8
    assert with_setting(PRESETS["options"], "algorithm.clip", "0.1", "").algorithm.clip == 0.1
    assert with_setting(fast, "collect.team_sizes", "2,8", "").collect.team_sizes == (2, 8)
    assert with_setting(RunSettings(), "evaluation.budgets_m", "720", "").evaluation.budgets_m == (720.0,)
    for name, text in (
        ("algorithm.batsh", "1"),
        ("nothing", "1"),
        ("updates", "x"),
        ("updates.more", "1"),
        ("privilege", "x"),
        ("algorithm.clip", "0.1"),
        ("actor.options", "8"),
        ("sac.batch", "1"),
    ):
        with pytest.raises(typer.BadParameter, match=f"{name}={text}"):
            with_setting(fast, name, text, f"{name}={text}")
    with pytest.raises(TrainingError, match="heads must divide"):
        with_setting(fast, "actor.heads", "3", "")
