"""Sensors that people own, by name: the horizontal field of view and the range that robots plan with."""

from typing import NamedTuple


class Sensor(NamedTuple):
    """A sensor as its data sheet describes it."""

    fov_deg: int
    range_m: float
    about: str


SENSORS = {
    "realsense-d435": Sensor(87, 3.0, "Intel RealSense D435: depth 87 x 58 degrees, ideal range 0.3 to 3 m"),
    "realsense-d455": Sensor(87, 6.0, "Intel RealSense D455: depth 87 x 58 degrees, ideal range 0.6 to 6 m"),
    "oak-d": Sensor(72, 8.0, "Luxonis OAK-D: depth 72 x 50 degrees, up to 12 m; errors are below 4% up to 8 m"),
    "zed-2": Sensor(110, 15.0, "Stereolabs ZED 2: 110 x 70 degrees, 0.2 to 20 m; errors are below 5% up to 15 m"),
    "rplidar-a1": Sensor(360, 12.0, "Slamtec RPLidar A1: all around, 0.15 to 12 m"),
    "vlp-16": Sensor(360, 20.0, "Velodyne VLP-16: all around, up to 100 m; robots plan with 20 m of it"),
}
