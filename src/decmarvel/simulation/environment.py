"""One mission: reset, views, step. Pure functions of one team in one world; `vmap` makes thousands of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from decmarvel.core.angles import heading_bin, scaled_step
from decmarvel.core.camera import footprint, limited_turn, scan, sensor_disc, surely_seen_bins
from decmarvel.core.config import Config
from decmarvel.core.lattice import SELF_SLOT, SLOT_OFFSETS, site_mask, slot_of
from decmarvel.core.types import (
    ABSENT,
    EXPLORING,
    FAILED,
    FAR_MM,
    HOME,
    RETURNING,
    UNKNOWN,
    Graph,
    Key,
    LocalView,
    Proposal,
    Robot,
    Scalar,
    Site,
)
from decmarvel.core.windows import cut
from decmarvel.robot.belief import remember
from decmarvel.robot.graph import build, no_graph
from decmarvel.robot.guard import Intent, intend
from decmarvel.robot.observation import local_view
from decmarvel.robot.pursuit import begin as begin_circling
from decmarvel.robot.pursuit import go_on, open_views
from decmarvel.robot.roads import PATIENCE
from decmarvel.robot.sight import empty_sight
from decmarvel.robot.travel import travel_path
from decmarvel.simulation.conflicts import ORDER_RANGE, resolve_conflicts
from decmarvel.simulation.fleet import Bodies, Fleet
from decmarvel.simulation.progress import Footprints, begin_progress, record_substep
from decmarvel.simulation.sightings import Glimpses, no_sightings, note_glimpses, remember_glimpses
from decmarvel.simulation.types import Move, Progress, State
from decmarvel.worlds.world import World


def reset(config: Config, key: Key, world: World, fleet: Fleet) -> State:
    """State at take-off: all robots share one scan from the start; each begins on a random node of it, its base."""
    key_site, key_heading = jax.random.split(key)
    size = world.free.shape[0]
    sites = config.lattice.sites(size)
    count = fleet.present.shape[0]
    bodies = fleet.bodies or Bodies.alike(config, count)
    start_cell = config.lattice.cell(world.start)
    unknown = jnp.full((size, size), UNKNOWN, jnp.uint8)
    seen = scan(config, world.free, start_cell, jnp.where(fleet.present, bodies.range_mm, FAR_MM).min())
    around = cut(world.free, start_cell, sensor_disc(config).reach)
    belief = remember(unknown, around, seen, start_cell)
    nothing = no_graph(empty_sight(config, sites))

    def begin(base: Site, own: dict[str, Scalar]) -> Graph:
        # It stands at its base, though a smaller body than the largest might wait for a better viewpoint there.
        there = eqx.tree_at(lambda graph: graph.age, nothing, PATIENCE * site_mask(sites, base).astype(jnp.int32))
        return build(config, unknown, belief, base, there, world.start, own["range_mm"], own["radius_mm"])

    # Bases are drawn for the largest body: all others can stand there, too.
    number = jnp.arange(count, dtype=jnp.int32)
    largest = bodies.of(jnp.argmax(jnp.where(fleet.present, bodies.radius_mm, -1)))
    linked = begin(world.start, largest).node
    lottery = jnp.where(linked, jax.random.uniform(key_site, linked.shape), jnp.inf).reshape(-1)
    drawn = jnp.argsort(lottery)[jnp.arange(count) % linked.sum()].astype(jnp.int32)
    bases = jnp.stack([drawn // sites, drawn % sites], axis=-1)
    keys = jax.vmap(lambda number: jax.random.fold_in(key_heading, number))(jnp.arange(count))
    bins = jax.vmap(lambda key: jax.random.randint(key, (), 0, config.heading_bins, jnp.int32))(keys)

    sensed = jnp.zeros((sites, sites, config.heading_bins), bool) | site_mask(sites, world.start)[..., None]
    team_size = fleet.present.sum().astype(jnp.int32)

    def robot(number: Scalar, base: Site, bin: Scalar) -> Robot:
        own = bodies.of(number)
        return Robot(
            number=number,
            team_size=team_size,
            base=base,
            site=base,
            heading=bin * config.degrees_per_bin,
            budget_mm=fleet.budget_mm[number],
            initial_budget_mm=fleet.budget_mm[number],
            **own,
            spacing_mm=jnp.array(config.spacing_mm, jnp.int32),
            cell_mm=jnp.array(config.cell_mm, jnp.int32),
            mode=jnp.where(fleet.present[number], EXPLORING, ABSENT).astype(jnp.int32),
            waits=jnp.array(0, jnp.int32),
            belief=belief,
            graph=begin(base, own),
            visits=site_mask(sites, base).astype(jnp.int32),
            sensed=sensed,
            circling=begin_circling(sites, base),
            sightings=no_sightings(config, count),
        )

    robots = jax.vmap(robot)(number, bases, bins)
    progress = begin_progress(config, world, belief, fleet.present)
    return State(world, robots, fleet.fail_step, progress, jnp.array(0, jnp.int32))


def views(config: Config, state: State) -> LocalView:
    """The view that each robot gives to its planner."""
    return jax.vmap(lambda robot: local_view(config, robot))(state.robots)


def step(config: Config, key: Key, state: State, team_views: LocalView, proposals: Proposal) -> tuple[State, Move]:
    """One decision of the whole team: failures, guard, conflicts, motion with sensing, new graphs.

    `team_views` are the views of this state, from which the proposals were made.
    """
    key_order, key_sensing, key_glimpses = jax.random.split(key, 3)
    robots = fail(state)
    intents = jax.vmap(lambda robot, view, proposal: intend(config, robot, view, proposal))(
        robots, team_views, proposals
    )
    move, lengths = agree(config, key_order, robots, intents, team_views, proposals)
    turns = jax.vmap(lambda robot, w, length: limited_turn(config, robot, w, length))(robots, move.heading, lengths)
    active = move.mode <= RETURNING
    beliefs, progress, glimpses = travel(config, key_sensing, state, robots, move, lengths, turns, active)
    robots = jax.vmap(lambda robot, *rest: arrive(config, robot, *rest))(robots, intents, move, lengths, turns, beliefs)
    glimpsed = remember_glimpses(config, key_glimpses, robots, glimpses)
    robots = eqx.tree_at(lambda r: r.sightings, robots, glimpsed)
    return State(state.world, robots, state.fail_step, progress, state.step + 1), move


def fail(state: State) -> Robot:
    """Mark the robots whose failure step has come as failed: they stop for good. Landed robots do not fail."""
    robots = state.robots
    broken = robots.active & (state.fail_step <= state.step)
    return eqx.tree_at(lambda r: r.mode, robots, jnp.where(broken, FAILED, robots.mode))


def agree(
    config: Config, key: Key, robots: Robot, intents: Intent, team_views: LocalView, proposals: Proposal
) -> tuple[Move, Int32[Array, "N"]]:
    """Give each node to one robot; a reassigned robot takes the heading that its proposal has for the new node.

    Also the length of each move.
    """
    active = intents.mode <= RETURNING
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(len(active)))
    order = jax.vmap(lambda key: jax.random.randint(key, (), 0, ORDER_RANGE, jnp.int32))(keys)
    slot, choice = resolve_conflicts(
        config,
        robots.site,
        active,
        jax.vmap(lambda robot: robot.graph.length_mm[:, robot.site[0], robot.site[1]])(robots),
        intents.mode == RETURNING,
        robots.waits > 0,
        intents.slot,
        intents.choice,
        proposals.score,
        team_views.candidates.mask,
        order,
    )
    offered = jnp.take_along_axis(proposals.heading.reshape(len(choice), -1), jnp.clip(choice, 0)[:, None], axis=1)
    heading = jnp.where(choice >= 0, offered[:, 0], intents.heading)
    target = robots.site + jnp.asarray(SLOT_OFFSETS)[slot]
    path, lengths = jax.vmap(lambda robot, target: way(config, robot, target))(robots, target)
    return Move(target, heading, intents.mode, choice, path), lengths


def way(config: Config, robot: Robot, target: Site) -> tuple[Int32[Array, "substeps 2"], Scalar]:
    """The cells of a robot's move after each substep, and its length."""
    start, end = (robot.graph.cell[site[0], site[1]] for site in (robot.site, target))
    if config.roads:
        return travel_path(config, robot.belief, start, end, robot.radius_mm)
    number = jnp.arange(1, config.substeps + 1, dtype=jnp.int32)[:, None]
    length_mm = jnp.asarray(config.lattice.slot_lengths_mm)[slot_of(target - robot.site)]
    return start[None] + scaled_step((end - start)[None], number, config.substeps), length_mm


def travel(
    config: Config,
    key: Key,
    state: State,
    robots: Robot,
    move: Move,
    lengths: Int32[Array, "N"],
    turns: Int32[Array, "N"],
    active: Bool[Array, "N"],
) -> tuple[UInt8[Array, "N Y X"], Progress, Glimpses]:
    """Sense at each substep of the move; update the team's record, and note which robot saw which."""
    world, count = state.world, active.shape[0]
    reach = sensor_disc(config).reach
    number = jnp.arange(count, dtype=jnp.int32)

    def sense(
        k: Scalar, number: Scalar, cell: Int32[Array, "2"], turn: Scalar, belief: UInt8[Array, "Y X"]
    ) -> tuple[Array, Array, Array, Array, Array]:
        key_robot = jax.random.fold_in(jax.random.fold_in(key, k), number)
        now = (robots.heading[number] + scaled_step(turn, k, config.substeps)) % 360
        range_mm, fov_deg = robots.range_mm[number], robots.fov_deg[number]
        seen = footprint(config, world.free, cell, now, key_robot, range_mm, fov_deg) & active[number]
        around = cut(world.free, cell, reach)
        learned = seen & cut(world.counted, cell, reach) & (cut(belief, cell, reach) == UNKNOWN)
        return cell, now, seen, learned, remember(belief, around, seen, cell)

    def substep(carry: tuple[Array, Progress, Glimpses], k: Scalar) -> tuple[tuple[Array, Progress, Glimpses], None]:
        beliefs, progress, glimpses = carry
        cells, headings, seen, learned, beliefs = jax.vmap(sense, in_axes=(None, 0, 0, 0, 0))(
            k, number, move.path[:, k - 1], turns, beliefs
        )
        travelled = robots.travelled_mm + lengths * k // config.substeps
        footprints = Footprints(cells, seen, learned)
        progress = record_substep(config, progress, world.free_count, footprints, active, travelled)
        glimpses = note_glimpses(glimpses, cells, headings, seen, robots.present)
        return (beliefs, progress, glimpses), None

    start = (robots.belief, state.progress, Glimpses.none(count))
    (beliefs, progress, glimpses), _ = jax.lax.scan(substep, start, jnp.arange(1, config.substeps + 1, dtype=jnp.int32))
    return beliefs, progress, glimpses


def arrive(
    config: Config,
    robot: Robot,
    intent: Intent,
    move: Move,
    length_mm: Scalar,
    turn: Scalar,
    belief: UInt8[Array, "Y X"],
) -> Robot:
    """Pose, budget, memory and graph of one robot after its move."""
    sites = robot.visits.shape[0]
    active = move.mode <= RETURNING
    heading = (robot.heading + jnp.where(active, turn, 0)) % 360
    here = site_mask(sites, move.target)
    bins = jnp.arange(config.heading_bins, dtype=jnp.int32)
    away = (bins - heading_bin(config, heading) + config.heading_bins // 2) % config.heading_bins
    looked = jnp.abs(away - config.heading_bins // 2) <= surely_seen_bins(config, robot.fov_deg)
    sensed = robot.sensed | (here[..., None] & looked[None, None] & active)
    middle = (robot.site + move.target) // 2
    graph = build(config, robot.belief, belief, robot.base, robot.graph, middle, robot.range_mm, robot.radius_mm)
    held = active & (length_mm == 0)
    open_there = open_views(config, robot.graph, robot.sensed)[move.target[0], move.target[1]]
    progress = (belief != robot.belief).any() | (open_there & looked & active).any()
    landed = (move.mode == RETURNING) & (move.target == robot.base).all()
    own = robot.own | {"site": move.target, "heading": heading, "budget_mm": robot.budget_mm - length_mm}
    return Robot(
        **own,
        mode=jnp.where(landed, HOME, move.mode),
        waits=jnp.where(held & (intent.slot != SELF_SLOT), robot.waits + 1, 0),
        belief=belief,
        graph=graph,
        visits=robot.visits + (here & (length_mm > 0)).astype(jnp.int32),
        sensed=sensed,
        circling=go_on(robot.circling, progress, intent.lost, move.target),
        sightings=robot.sightings,
    )
