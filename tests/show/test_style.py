"""One palette, and names that look like mathematics."""

import re
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import decmarvel.core.colours
import decmarvel.show.style
from decmarvel.core.colours import ROBOTS, rgb, robot_colour
from decmarvel.core.config import Config
from decmarvel.show.figures import draw_map
from decmarvel.show.style import PAGE_DARK, PAGE_LIGHT, legend, save, title
from decmarvel.worlds import Building

PACKAGE = Path(decmarvel.show.style.__file__).parent.parent


def test_a_name_with_dollar_signs_is_drawn(tmp_path):
    free = np.zeros((40, 40), bool)
    free[5:35, 5:35] = True
    draw_map(Config(), Building(free, (20, 20), 0.4, r"$\bad$"), tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_every_text_of_a_figure_is_plain(tmp_path):
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], label=r"$\worse$")
    title(axes, r"$\bad$", r"$\worst{$")
    legend(axes, axes.get_lines())
    figure.suptitle("$^$")
    for name in ("a.png", "a.svg", "a.pdf"):
        save(figure, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def test_robots_take_turns_with_the_colours():
    assert [robot_colour(number) for number in range(10)] == [*ROBOTS, *ROBOTS[:2]]
    assert rgb("#D55E00") == (0xD5, 0x5E, 0x00)


def test_the_page_has_a_colour_for_every_name():
    used = set()
    for path in (PACKAGE / "show" / "viewer").iterdir():
        text = path.read_text()
        used |= set(re.findall(r"var\(--([\w-]+)\)", text)) | set(re.findall(r'ink\("--([\w-]+)"\)', text))
    assert used <= set(PAGE_LIGHT)
    assert set(PAGE_DARK) < set(PAGE_LIGHT)


def test_colours_are_written_in_one_place():
    places = {Path(module.__file__) for module in (decmarvel.core.colours, decmarvel.show.style)}
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".js", ".css", ".html") and path not in places:
            assert not re.findall(r"#[0-9A-Fa-f]{6}\b", path.read_text()), path
