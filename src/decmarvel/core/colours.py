"""The colours of robots and maps, as "#RRGGBB". Pictures outside `show` use them too."""

ROBOTS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#6F6F2E")
"""One colour a robot; colour-blind readers can tell them apart. The ninth robot has the first colour again."""
GROUND = "#E9EAED"
"""Colour of everything outside the building, and of what cannot be known."""
FLOOR, WALL = "#FFFFFF", "#3A3F47"
"""Colours of the floor and the walls that the team knows."""
UNSEEN = "#D9DCE1"
"""Colour of the floor that the team does not know yet."""


def robot_colour(number: int) -> str:
    """The colour of a robot; numbers count from 0."""
    return ROBOTS[number % len(ROBOTS)]


def rgb(colour: str) -> tuple[int, int, int]:
    """Red, green and blue from 0 to 255."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
