"""The simulator as a PettingZoo environment, for learners and tools that are written against that interface.

    env = ExplorationEnv(robots=4, budget_m=720)
    observations, infos = env.reset(seed=1)
    while env.agents:
        actions = {a: env.action_space(a).sample(observations[a]["action_mask"]) for a in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)

One mission at a time on NumPy arrays: for thousands at once, `vmap` over `decmarvel.simulation.environment` instead.
"""

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from decmarvel.core.colours import FLOOR, GROUND, UNSEEN, WALL, rgb, robot_colour
from decmarvel.core.config import Config
from decmarvel.core.lattice import SLOT_OFFSETS, SLOTS
from decmarvel.core.types import FREE, MODE_NAMES, OCCUPIED, RETURNING, Key, LocalView, Proposal, Scalar
from decmarvel.robot.observation import NOTHING_CM, POSITION_SCALE_M, UTILITY_SCALE, Observation, Ways, observe, ways
from decmarvel.simulation.environment import reset, step, views
from decmarvel.simulation.fleet import Fleet
from decmarvel.simulation.types import State
from decmarvel.worlds import Building, generate
from decmarvel.worlds.place import place
from decmarvel.worlds.world import World

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        "the PettingZoo environment needs two more packages: pip install decmarvel[pettingzoo]"
    ) from error

Arrays: TypeAlias = dict[str, np.ndarray]
Action: TypeAlias = int | np.integer
Known: TypeAlias = tuple[Observation, Ways]
"""What the robots know, as arrays with an axis of robots."""
RewardFn: TypeAlias = Callable[[State, State], Float32[Array, "N"]]
"""Computes one reward a robot from the states before and after a decision."""


def coverage_gain(before: State, after: State) -> Float32[Array, "N"]:
    """The default reward: the share of the free space that is new to the whole team, the same number for everybody."""
    gain = (after.progress.covered - before.progress.covered).astype(jnp.float32)
    return jnp.full(before.robots.mode.shape, gain / before.world.free_count.astype(jnp.float32), jnp.float32)


def as_proposal(config: Config, view: LocalView, action: Scalar) -> Proposal:
    """An action as a planner's answer. If it is not possible, the closest candidate is the next best."""
    headings = jnp.arange(config.headings_per_node, dtype=jnp.int32)
    sites = jnp.asarray(SLOT_OFFSETS)
    wanted_slot, wanted_heading = action // config.headings_per_node, action % config.headings_per_node
    away = ((sites - sites[wanted_slot][None]) ** 2).sum(axis=-1)
    score = -10 * away[:, None] - jnp.abs(headings - wanted_heading)[None, :]
    return Proposal(score.astype(jnp.float32), view.candidates.heading_bin * config.degrees_per_bin, action)


@partial(jax.jit, static_argnums=0)
def _begin(config: Config, key: Key, world: World, fleet: Fleet) -> tuple[State, Known]:
    state = reset(config, key, world, fleet)
    return state, _known(config, views(config, state))


def _known(config: Config, team_views: LocalView) -> Known:
    return jax.vmap(lambda view: (observe(config, view), ways(config, view)))(team_views)


@partial(jax.jit, static_argnums=(0, 1))
def _advance(
    config: Config, reward: RewardFn, key: Key, state: State, actions: Int32[Array, "N"]
) -> tuple[State, Known, Float32[Array, "N"]]:
    seen = views(config, state)
    proposals = jax.vmap(lambda view, action: as_proposal(config, view, action))(seen, actions)
    after, _ = step(config, key, state, seen, proposals)
    return after, _known(config, views(config, after)), reward(state, after)


def observation_space(config: Config, sites: int, robots: int) -> spaces.Space:
    """The fields of `Observation` and `Ways` as Gymnasium spaces. Masks are int8 flags; the action mask is flat."""
    bins, tokens = config.heading_bins, (robots, config.history)
    far = sites * config.spacing_m / POSITION_SCALE_M
    most = (2 * config.utility_radius_cells + 1) ** 2 / UTILITY_SCALE
    node_low = np.array([-far, -far, 0, 0, -1, -1, 0, 0, 0], np.float32)
    node_high = np.array([far, far, most, 1, 1, 1, 1, 2, 1], np.float32)
    most_mm = np.iinfo(np.int32).max
    token_low = np.array([-np.inf, -np.inf, -1, -1, 0], np.float32)
    token_high = np.array([np.inf, np.inf, 1, 1, 1], np.float32)

    def features(low: np.ndarray, high: np.ndarray, *leading: int) -> spaces.Box:
        shape = (*leading, len(low))
        return spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), shape, np.float32)

    return spaces.Dict(
        {
            "node_features": features(node_low, node_high, sites, sites),
            "node_mask": spaces.MultiBinary((sites, sites)),
            "edge": spaces.MultiBinary((SLOTS, sites, sites)),
            "histogram": spaces.Box(0, 255, (sites, sites, bins), np.float32),
            "sensed": spaces.MultiBinary((sites, sites, bins)),
            "budget": features(np.zeros(4, np.float32), np.array([np.inf, np.inf, 1, 2], np.float32)),
            "tokens": features(token_low, token_high, *tokens),
            "token_mask": spaces.MultiBinary(tokens),
            "token_site": spaces.Box(-1, sites - 1, (*tokens, 2), np.int32),
            "heading_bin": spaces.Box(0, bins - 1, (SLOTS, config.headings_per_node), np.int32),
            "action_mask": spaces.MultiBinary(SLOTS * config.headings_per_node),
            "number": spaces.Discrete(robots),
            "team_size": spaces.Discrete(robots, start=1),
            "base": spaces.Box(0, sites - 1, (2,), np.int32),
            "site": spaces.Box(0, sites - 1, (2,), np.int32),
            "heading": spaces.Box(0, 359, (), np.int32),
            "budget_mm": spaces.Box(0, most_mm, (), np.int32),
            "initial_budget_mm": spaces.Box(0, most_mm, (), np.int32),
            "fov_deg": spaces.Box(1, 360, (), np.int32),
            "range_mm": spaces.Box(1, config.sensor_range_mm, (), np.int32),
            "speed_mm_s": spaces.Box(1, most_mm, (), np.int32),
            "yaw_rate_deg_s": spaces.Box(0, most_mm, (), np.int32),
            "radius_mm": spaces.Box(0, config.radius_mm, (), np.int32),
            "spacing_mm": spaces.Box(config.spacing_mm, config.spacing_mm, (), np.int32),
            "cell_mm": spaces.Box(config.cell_mm, config.cell_mm, (), np.int32),
            "way_cm": spaces.Box(0, NOTHING_CM, (sites, sites), np.int32),
            "open_cm": spaces.Box(0, NOTHING_CM, (sites, sites), np.int32),
        }
    )


class ExplorationEnv(ParallelEnv[str, Arrays, Action]):
    """A team that explores one building; an agent is done when its robot is home or has failed.

    An action is the flat index `slot * 3 + h` of a waypoint-heading candidate. One that the mask forbids, or that loses
    a conflict, becomes the permitted candidate closest to it. A returning robot goes home whatever its action; its mode
    is in its info. `reset` options: "building" (another `Building` that fits the lattice) and "fleet" (another `Fleet`
    of as many places: budgets, failures, cameras and bodies of this mission); others are ignored.
    """

    metadata: dict[str, Any] = {"name": "decmarvel_exploration_v0", "render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        building: Building | None = None,
        robots: int = 4,
        budget_m: float = 720.0,
        config: Config | None = None,
        *,
        map_seed: int = 0,
        sites: int | None = None,
        reward: RewardFn = coverage_gain,
        seed: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Without a `building` it is the held-out indoor map number `map_seed`.

        `sites` makes the lattice larger than this building needs, so that other buildings fit at `reset`. `seed` is for
        a first `reset` that names none.
        """
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}; choose None or 'rgb_array'")
        self.config = config or Config()
        self.render_mode = render_mode
        self._reward = reward
        self._seed = seed
        self._root: Key | None = None
        self._world = place(building or generate("indoor", "heldout", map_seed, self.config.cell_m), self.config, sites)
        self._fleet = Fleet.of(robots, budget_m)
        self._sites = self.config.lattice.sites(self._world.free.shape[0])
        self.possible_agents = [f"robot_{number}" for number in range(robots)]
        self.agents: list[str] = []
        actions, space = SLOTS * self.config.headings_per_node, partial(observation_space, self.config)
        self.action_spaces = {agent: spaces.Discrete(actions) for agent in self.possible_agents}
        self.observation_spaces = {agent: space(self._sites, robots) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Arrays], dict[str, dict[str, Any]]]:
        """Start a mission. Without a seed, it is the next mission of the series of the last seed."""
        options = options or {}
        world, fleet = self._world, options.get("fleet", self._fleet)
        if "building" in options:
            world = place(options["building"], self.config, self._sites)
        if seed is not None or self._root is None:
            first = next(s for s in (seed, self._seed, secrets.randbits(31)) if s is not None)
            self._root, self._episode = jax.random.key(first), 0
        key_reset, self._key_flight = jax.random.split(jax.random.fold_in(self._root, self._episode))
        self._episode += 1
        self._max_decisions = self.config.max_decisions(int(fleet.budget_mm.max()) / 1000)
        self._state, observation = _begin(self.config, key_reset, world, fleet)
        self.agents = [
            agent for agent, mode in zip(self.possible_agents, self._modes(), strict=True) if mode <= RETURNING
        ]
        return self._by_agent(observation), self._infos()

    def step(
        self, actions: dict[str, Action]
    ) -> tuple[dict[str, Arrays], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """One decision of everybody."""
        for agent in self.agents:
            if agent not in actions or not self.action_spaces[agent].contains(actions[agent]):
                raise ValueError(f"{agent} needs an action from {self.action_spaces[agent]}, not {actions.get(agent)}")
        wanted = np.array([int(actions[a]) if a in self.agents else 0 for a in self.possible_agents], np.int32)
        key = jax.random.fold_in(self._key_flight, self._state.step)
        self._state, observation, earned = _advance(self.config, self._reward, key, self._state, jnp.asarray(wanted))
        number = {agent: index for index, agent in enumerate(self.possible_agents)}
        modes, rewards = self._modes(), np.asarray(earned)
        late = int(self._state.step) >= self._max_decisions
        terminated = {agent: bool(modes[number[agent]] > RETURNING) for agent in self.agents}
        truncated = {agent: late and not terminated[agent] for agent in self.agents}
        answer = (
            self._by_agent(observation),
            {agent: float(rewards[number[agent]]) for agent in self.agents},
            terminated,
            truncated,
            self._infos(),
        )
        self.agents = [agent for agent in self.agents if not (terminated[agent] or truncated[agent])]
        return answer

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """The team's map from above, north up, in the colours of all pictures: bases dark, robots bright."""
        if self.render_mode is None:
            return None
        robots = self._state.robots
        beliefs, free, cell = (np.asarray(each) for each in (robots.belief, self._state.world.free, robots.graph.cell))
        picture = np.where(free[..., None], rgb(UNSEEN), rgb(GROUND)).astype(np.uint8)
        picture[(beliefs == FREE).any(axis=0)] = rgb(FLOOR)
        picture[(beliefs == OCCUPIED).any(axis=0)] = rgb(WALL)
        half = max(1, self.config.stride // 5)
        for sites, radius, dark in ((robots.base, half, 2), (robots.site, 2 * half, 1)):
            for number, (row, column) in enumerate(np.asarray(sites)):
                y, x = cell[number, row, column]
                colour = np.array(rgb(robot_colour(number))) // dark
                picture[y - radius : y + radius + 1, x - radius : x + radius + 1] = colour
        return np.ascontiguousarray(picture[::-1])

    def _modes(self) -> Int32[np.ndarray, "N"]:
        return np.asarray(self._state.robots.mode)

    def _by_agent(self, known: Known) -> dict[str, Arrays]:
        observation, ways = known
        fields: Arrays = {name: np.asarray(field) for name, field in (vars(observation) | vars(ways)).items()}
        fields = {name: field.astype(np.int8) if field.dtype == bool else field for name, field in fields.items()}
        fields["action_mask"] = fields["action_mask"].reshape(len(self.possible_agents), -1)
        return {
            agent: {name: np.asarray(field[number]) for name, field in fields.items()}
            for number, agent in enumerate(self.possible_agents)
            if agent in self.agents
        }

    def _infos(self) -> dict[str, dict[str, Any]]:
        names = zip(self.possible_agents, self._modes(), np.asarray(self._state.robots.budget_mm), strict=True)
        return {
            agent: {"mode": MODE_NAMES[mode], "remaining_m": int(budget) / 1000}
            for agent, mode, budget in names
            if agent in self.agents
        }
