"""Comparisons of proposals with the oracles, for single robots and for whole missions."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import oracles.goals
import oracles.lattice
import oracles.nbvp
from decmarvel.core.config import Config
from decmarvel.core.types import FAR_MM, RETURN_HOME, LocalView, Proposal
from decmarvel.robot.planners import nbvp
from decmarvel.robot.planners.base import Planner
from minds import CLOSE, middles, pair
from oracles.mind import Mind


def check_pursuit(mind: Mind, wanted: oracles.goals.Goal | None, far_sighted: bool, proposal: Proposal) -> None:
    """Choice, and for every slot that the guard admits the heading and the score."""
    pursuit, per_slot = oracles.goals.pursue(mind, wanted, far_sighted), mind.config.headings_per_node
    if wanted is None:
        assert proposal.choice == RETURN_HOME
        return
    assert int(proposal.choice) == per_slot * pursuit.slot
    for slot, cost in pursuit.costs.items():
        assert (proposal.score[slot] == -cost).all()
        assert (proposal.heading[slot] == pursuit.headings[slot]).all()


@partial(jax.jit, static_argnums=(0, 1))
def propose(config: Config, planner: Planner, view: LocalView, memory, key):
    return planner.propose(config, key, view, memory)


def check_nearest(
    mind: Mind, old: oracles.goals.Goal | None, sector: bool, got: oracles.goals.Goal | None, proposal: Proposal
) -> bool:
    """Whether the goal is the oracle's own; if not, it must be one of equal cost."""
    expected, found = oracles.goals.nearest_goal(mind, old, sector)
    same = got == expected
    if not same:
        assert sector
        check_close(mind, found, got)
    if mind.feasible.any():
        check_pursuit(mind, got, sector, proposal)
    return same


def check_close(mind: Mind, found: list[oracles.goals.Offer], got: oracles.goals.Goal | None) -> None:
    """The goal is another than the oracle's, but its cell costs the same up to rounding."""
    least = oracles.goals.cheapest(found).cost
    alike = [offer for offer in found if oracles.goals.goal_of(mind, offer, True) == got]
    assert alike
    assert min(offer.cost for offer in alike) <= least + max(10, CLOSE * least)


@partial(jax.jit, static_argnums=0)
def whole_gain(config: Config, view: LocalView):
    """The gains of all sites on known floor, window by window."""
    sites = oracles.lattice.sites_a_side(config, view.belief.shape[0])

    def look(plan, middle):
        there = dataclasses.replace(view, site=middle)
        plan = dataclasses.replace(plan, site=middle)
        gain, heading_bin = nbvp.refresh(config, there, plan)
        return dataclasses.replace(plan, gain=gain, heading_bin=heading_bin), None

    start = nbvp.NextBestViewPlanner().start(config, sites)
    plan = jax.lax.scan(look, start, jnp.asarray(middles(config, sites)))[0]
    return plan.gain, plan.heading_bin


@jax.jit
def draw_samples(key, open_):
    """What the planner draws, for the oracle to use."""
    logits = jnp.where(open_, 0.0, -jnp.inf).reshape(-1)
    return jax.random.categorical(key, logits, shape=(oracles.nbvp.MOST_SAMPLES,))


def samples_of(mind: Mind, key) -> list[oracles.lattice.Site]:
    """Two hundred affordable nodes."""
    flat = np.asarray(draw_samples(key, jnp.asarray(mind.affordable)))
    samples = [(int(index) // mind.size, int(index) % mind.size) for index in flat]
    assert all(mind.affordable[site] for site in samples)
    return samples


def check_gains(config: Config, belief, node, gain, heading_bin, camera=(None, None)) -> tuple[np.ndarray, np.ndarray]:
    """The gains that were refreshed here and there are right at all nodes."""
    cells, view = oracles.nbvp.gains(config, belief, node, *camera)
    np.testing.assert_array_equal(gain[node], cells[node])
    np.testing.assert_array_equal(heading_bin[node], view[node])
    return cells, view


def check_nbvp(mind: Mind, old: nbvp.Plan, new: nbvp.Plan, proposal: Proposal, key) -> bool:
    """Whether the plan is the oracle's; if not, its branch must be worth the same."""
    cells, view = check_gains(mind.config, mind.belief, mind.home < FAR_MM, new.gain, new.heading_bin, mind.camera)
    promise = oracles.nbvp.promises(mind, cells, view)
    rest = [pair(site) for site in old.branch if site[0] >= 0]
    if not mind.affordable.any() or not mind.feasible.any():
        return True
    tree = oracles.nbvp.grow(mind, promise, oracles.nbvp.replant(mind, promise, rest), samples_of(mind, key))
    branch, same = oracles.nbvp.best_branch(tree), True
    slot = oracles.nbvp.first_hop(mind, promise) if not branch else oracles.nbvp.slot_between(mind.site, branch[0])
    if slot is None:
        assert int(proposal.choice) == RETURN_HOME
        return True
    got = int(proposal.choice) // mind.config.headings_per_node
    kept = [pair(site) for site in new.branch if site[0] >= 0]
    if branch:
        same = got == slot and kept == branch[1 : oracles.nbvp.REMEMBERED]
        taken = [oracles.lattice.neighbour(mind.site, got), *kept]
        assert same or oracles.nbvp.branch_to(tree, taken[-1]) == taken
        assert same or oracles.nbvp.difference(tree[taken[-1]].worth, tree[branch[-1]].worth) < CLOSE
    else:
        assert got == slot
    assert int(proposal.heading[got, 0]) == oracles.nbvp.nbvp_heading(mind, promise, view, got)
    return same
