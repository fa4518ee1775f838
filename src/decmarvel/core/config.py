"""All constants of the model, with their units. Everything else is derived from these."""

import math
from dataclasses import dataclass, field
from functools import cached_property

from decmarvel.core.lattice import Lattice

MOST_CELLS = 48
"""Cells between two sites, at most: lengths of roads are numbers of 16 bits."""
FREE_MARGIN_CELLS = 2  # frontier grouping reads two cells beyond the line-of-sight disc


@dataclass(frozen=True)
class Noise:
    """Imperfect perception. Off by default. The map itself stays right: localisation drift is not modelled."""

    range_sd_m: float = 0.0
    """Each substep the camera sees only up to `sensor_range_m - |N(0, sd)|`."""
    pointing_sd_deg: float = 0.0
    """The camera points away from the commanded heading by N(0, sd), drawn each substep."""
    sighting_position_sd_m: float = 0.0
    """Error of a sighted teammate's position, per axis."""
    sighting_heading_sd_deg: float = 0.0
    """Error of a sighted teammate's heading."""
    miss_probability: float = 0.0
    """A visible teammate is overlooked for a whole decision with this probability."""
    false_probability: float = 0.0
    """A teammate that was not seen is reported somewhere in range with this probability per decision."""

    @property
    def off(self) -> bool:
        return self == Noise()


NOISE_LEVELS = {
    "off": Noise(),
    "mild": Noise(
        range_sd_m=0.5,
        pointing_sd_deg=3.0,
        sighting_position_sd_m=0.4,
        sighting_heading_sd_deg=10.0,
        miss_probability=0.1,
        false_probability=0.01,
    ),
    "harsh": Noise(
        range_sd_m=2.0,
        pointing_sd_deg=10.0,
        sighting_position_sd_m=1.2,
        sighting_heading_sd_deg=30.0,
        miss_probability=0.4,
        false_probability=0.05,
    ),
}
"""Named settings. Mild: a good depth camera and detector. Harsh: dust, backlight, a gimbal that swings."""


@dataclass(frozen=True)
class Config:
    """One mission's physics and abstractions. Frozen and hashable: a static argument of every compiled function."""

    spacing_m: float = 4.0
    """Distance between lattice sites. About 0.4 sensing ranges suit the planners."""
    coarsest_cell_m: float = 0.4
    """Largest side of a cell. It is a little smaller where a whole number of cells must fit between two sites."""
    roads: bool = False
    """Whether robots travel on roads as fine as the cells, between viewpoints that lie where a robot can stand. False:
    on straight lines between the lattice sites, as in the paper."""
    radius_m: float = 0.0
    """Radius of the largest body in the team: robots keep their centres that far from walls. Only with roads."""
    sensor_range_m: float = 10.0
    """Range of the farthest-seeing camera in the team. A robot has its own range in `Own.range_mm`."""
    fov_deg: int = 120
    """Horizontal field of view of a camera, where a team does not say anything else."""
    utility_range_m: float = 9.0
    """Frontiers within this range of a node and in its line of sight count as its utility."""
    heading_bins: int = 36
    window_bins: int = 13
    """Bins that one camera view spans when headings are scored."""
    headings_per_node: int = 3
    substeps: int = 6
    yaw_rate_deg_s: int = 35
    speed_m_s: float = 1.0
    hold_turn_m: float = 4.0
    """A robot that holds its position may turn as far as on a move of this length."""
    patience: int = 8
    """An exploring robot that others have kept from moving for this many decisions in a row turns home."""
    most_visits: int = 3
    """How often a planner may lead a robot to one node while its map does not grow and it takes no new view."""
    safety_margin_m: float = 4.0
    """Epsilon of Eq. 2 and 3."""
    history: int = 10
    """Decisions for which a sighting of a teammate is remembered (L of Eq. 9)."""
    max_budget_m: float = 1024.0
    """B_max of Eq. 6."""
    success_percent: int = 99
    noise: Noise = field(default_factory=Noise)

    def __post_init__(self) -> None:
        if not 0.1 <= self.spacing_m <= 12:
            raise ValueError(f"spacing_m is {self.spacing_m}; choose between 0.1 and 12 m (4, 2 and 1 are usual)")
        if self.stride > MOST_CELLS:
            raise ValueError(
                f"there are {self.stride} cells between two sites, more than {MOST_CELLS}; choose larger cells"
            )
        if 360 % self.heading_bins or self.window_bins % 2 == 0:
            raise ValueError("heading_bins must divide 360, and window_bins must be odd")

    @cached_property
    def stride(self) -> int:
        """Cells between two neighbouring sites."""
        return math.ceil(self.spacing_m / self.coarsest_cell_m - 1e-9)

    @property
    def cell_m(self) -> float:
        return self.spacing_m / self.stride

    @property
    def spacing_mm(self) -> int:
        return round(1000 * self.spacing_m)

    @property
    def cell_mm(self) -> int:
        return round(1000 * self.cell_m)

    @property
    def sensor_range_mm(self) -> int:
        return round(1000 * self.sensor_range_m)

    @property
    def utility_percent(self) -> int:
        """The range within which frontiers count, as a share of the sensing range."""
        return round(100 * self.utility_range_m / self.sensor_range_m)

    @property
    def radius_mm(self) -> int:
        return round(1000 * self.radius_m)

    @property
    def scale(self) -> float:
        """How much smaller the sensing range is than the paper's: facts in metres are divided by it for the policy."""
        return self.sensor_range_m / 10.0

    @property
    def short_moves(self) -> bool:
        """Whether moves show little on the way: viewpoints nearer than a quarter of the sensing range, as in rooms."""
        return self.roads and self.spacing_m < 0.25 * self.sensor_range_m

    @property
    def safety_margin_mm(self) -> int:
        return round(1000 * self.safety_margin_m)

    @property
    def degrees_per_bin(self) -> int:
        return 360 // self.heading_bins

    @property
    def sensor_radius_cells(self) -> float:
        return self.sensor_range_m / self.cell_m

    @property
    def utility_radius_cells(self) -> float:
        return self.utility_range_m / self.cell_m

    @property
    def margin_tiles(self) -> int:
        """Tiles of wall around the lattice, so that no window around a site or a robot leaves the array."""
        reach = math.ceil(max(self.sensor_radius_cells, self.utility_radius_cells)) + FREE_MARGIN_CELLS
        return math.ceil((reach - (self.stride - 1) // 2) / self.stride)

    @property
    def margin_cells(self) -> int:
        return self.margin_tiles * self.stride

    @property
    def window_sites(self) -> int:
        """Side of the square of sites whose utility one decision can change, centred on the middle of the move.

        A decision changes cells up to one sensor radius from a segment of at most two sites a side, and a changed cell
        (or its neighbours, whose frontier status it decides) matters to sites within the utility radius.
        """
        reach_cells = self.sensor_radius_cells + self.utility_radius_cells + self.stride + FREE_MARGIN_CELLS
        return 2 * (math.floor(reach_cells / self.stride + 0.5) + (2 if self.roads else 0)) + 1

    @property
    def road_window_sites(self) -> int:
        """Side of the square of sites whose viewpoints and edges one decision can change."""
        reach_cells = self.sensor_radius_cells + 2 * self.radius_m / self.cell_m
        return 2 * (math.ceil(reach_cells / self.stride) + 4) + 1

    @cached_property
    def lattice(self) -> Lattice:
        """Where the sites lie in the grid."""
        return Lattice(self.spacing_mm, self.stride, self.margin_cells)

    def max_decisions(self, budget_m: float) -> int:
        """Upper limit on decisions. The budget ends first: each decision moves one spacing or more, waits, or on roads
        turns; and there moves may be shorter.
        """
        if self.roads:
            return max(1024, math.ceil(8 * budget_m / self.spacing_m))
        return max(512, math.ceil(2 * budget_m / self.spacing_m))
