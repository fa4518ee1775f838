"""The shape of the package: what robots cannot name, and that the documentation is true."""

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jax
import pytest

from decmarvel.core.types import LocalView, Own, Robot
from decmarvel.robot.observation import Observation
from decmarvel.robot.policy.nodes import Situation
from decmarvel.training.codec import Snapshot
from paths import ROOT

PACKAGE = ROOT / "src" / "decmarvel"
TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))

UNSPEAKABLE = {"World", "State", "Progress", "PrivilegedView", "merge", "privileged_view", "decompose"}
"""Names of what sees the ground truth or the team."""


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name: path for name, path in FILES.items() if name != "__init__.py"}


ON_BOARD = [name for name in MODULES if name.startswith("robot/")]


@pytest.mark.parametrize("name", ON_BOARD)
def test_what_runs_on_a_robot_cannot_name_the_truth_or_the_team(name):
    """Imports are for the contracts of import-linter; a type may still be named without an import."""
    tree = parsed(MODULES[name])
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    names |= {  # annotations may be written as strings
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.arg | ast.AnnAssign | ast.FunctionDef)
        for hint in [node.returns if isinstance(node, ast.FunctionDef) else node.annotation]
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str)
        for word in re.findall(r"\w+", hint.value)
    }
    assert not names & UNSPEAKABLE


@pytest.mark.parametrize("name", MODULES)
def test_modules_take_only_the_version_from_the_package_itself(name):
    """Its other names are loaded when they are asked for, and the contracts do not follow them."""
    for node in ast.walk(parsed(MODULES[name])):
        if isinstance(node, ast.ImportFrom) and node.module == "decmarvel":
            assert [alias.name for alias in node.names] == ["__version__"]
        assert not isinstance(node, ast.Import) or "decmarvel" not in [alias.name for alias in node.names]


def test_what_a_robot_knows_of_itself_reaches_everybody():
    """The simulator's robot, the planners' view, the networks' input and the memory have every fact, by one class."""
    facts = {field.name: field.type for field in dataclasses.fields(Own)}
    assert facts
    for kind in (Robot, LocalView, Observation, Situation, Snapshot):
        assert issubclass(kind, Own), kind
        fields = {field.name: field.type for field in dataclasses.fields(kind)}
        assert facts.items() <= fields.items(), kind


LONG_FOR_A_REASON = {
    "cli/explore.py: explore": "every option of the command is a parameter with its help",
    "cli/benchmark.py: benchmark": "the same",
}
"""Functions above 60 lines."""


@pytest.mark.parametrize("name", MODULES)
def test_modules_and_functions_fit_on_a_few_screens(name):
    assert len(MODULES[name].read_text().splitlines()) <= 350
    for node in ast.walk(parsed(MODULES[name])):
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60:
            assert f"{name}: {node.name}" in LONG_FOR_A_REASON


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: path.name)
def test_files_of_tests_fit_on_some_screens(path):
    assert len(path.read_text().splitlines()) <= 500


WRITTEN = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
"""Documents that people write; reports of benchmarks are generated into folders below `docs`."""
LONG_LINES = {"training-log.md"}
"""Documents whose lines are as long as they are: commands as they were typed, and headings."""


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a document with their numbers, without blocks of code and tables."""
    inside = False
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        fence = line.lstrip().startswith("```")
        inside ^= fence
        if not (inside or fence or line.startswith("|")):
            yield number, line


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_lines_of_documents_end_at_120_characters(path):
    """Where they can be broken: not within a command or a link."""
    if path.name in LONG_LINES:
        return
    for number, line in prose(path):
        parts = re.findall(r"`[^`]*`\S*|!?\[[^]]*\]\([^)]*\)\S*|\S+", line)
        assert len(line) <= 120 or len(parts) == 1, f"{path.name}:{number}"


@pytest.mark.parametrize("name", MODULES)
def test_the_architecture_page_names_every_module(name):
    """Folders and modules by their names, as code."""
    stem = Path(name).stem if Path(name).stem != "__init__" else Path(name).parent.name
    named = re.findall(r"`([\w/]+)`", (ROOT / "docs" / "architecture.md").read_text())
    assert stem == "__main__" or stem in {part for each in named for part in each.split("/")}


def test_the_package_has_ten_folders_and_no_modules_beside_them():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert len(folders) == 10
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def cited(text: str) -> set[int]:
    """Equation numbers in a text: "Eq. 2", "Eq. 2, Eq. 3", "Eq. 2 and 3", "Eq. 2 to 4"."""
    found = set()
    for match in re.finditer(r"Eq\. (\d+)((?:(?:, | and | to )\d+)*)", text):
        numbers = [int(match[1]), *map(int, re.findall(r"\d+", match[2]))]
        found |= set(range(numbers[0], numbers[-1] + 1)) if " to " in match[2] else set(numbers)
    return found


def functions(path: Path, module: str) -> dict[str, str]:
    """Docstrings of the functions and methods of a file by name: "module.function", "module.Class.method"."""
    found, todo = {}, [(module, node) for node in parsed(path).body]
    while todo:
        prefix, node = todo.pop()
        if isinstance(node, ast.ClassDef):
            todo += [(f"{prefix}.{node.name}", child) for child in node.body]
        elif isinstance(node, ast.FunctionDef):
            found[f"{prefix}.{node.name}"] = ast.get_docstring(node) or ""
    return found


@cache
def package_functions() -> dict[str, str]:
    found = {}
    for path in MODULES.values():
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found |= functions(path, ".".join(part for part in parts if part != "__init__"))
    return found


@cache
def all_tests() -> dict[str, str]:
    """Docstrings of the functions in all files of tests: "test_module.test_function", wherever the file lies."""
    files = {path.stem: path for path in TEST_FILES}
    assert len(files) == len(TEST_FILES), "two files of tests have the same name"
    return {name: docstring for stem, path in files.items() for name, docstring in functions(path, stem).items()}


def texts(path: Path) -> list[str]:
    """All strings that stand alone: docstrings, and the lines below a field or constant that explain it."""
    nodes = [node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Expr)]
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def equation_rows() -> list[tuple[str, str, list[str], list[str]]]:
    """The table of the page: number or "by name", name, functions, tests."""
    rows = []
    for line in (ROOT / "docs" / "equations.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and not set(cells[0]) <= set("-:") and cells[0] != "equation":
            rows.append((cells[0], cells[1], re.findall(r"`(.+?)`", cells[2]), re.findall(r"`(.+?)`", cells[3])))
    return rows


@pytest.mark.parametrize("row", equation_rows(), ids=lambda row: f"{row[0]} {row[1]}")
def test_equations_page_lists_what_exists(row):
    number, _, listed, tests = row
    assert listed
    assert tests
    docstrings = package_functions()
    for name in listed:
        assert name in docstrings, f"no function {name}"
        if number.isdigit():
            assert int(number) in cited(docstrings[name]), f"the docstring of {name} does not say Eq. {number}"
    existing = all_tests()
    for name in tests:
        assert name in existing, f"no test {name}"


def test_equations_page_lists_every_function_that_cites_an_equation():
    rows = equation_rows()
    assert [int(row[0]) for row in rows if row[0].isdigit()] == sorted(
        {int(row[0]) for row in rows if row[0].isdigit()}
    )
    listed = {name for row in rows for name in row[2]}
    for name, docstring in package_functions().items():
        assert not cited(docstring) or name in listed, f"{name} cites an equation and is not on the page"
    on_page = {int(row[0]) for row in rows if row[0].isdigit()}
    for path in FILES.values():
        for text in texts(path):
            assert cited(text) <= on_page, f"{path.name}: {text.splitlines()[0]}"


def code_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_examples_of_the_architecture_page_run(capsys):
    """As one program, from top to bottom, in a process as a reader has it: with JAX's usual promotion of types."""
    blocks = code_blocks("architecture.md")
    assert len(blocks) == 3
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        namespace = {"__name__": "architecture"}
        for number, block in enumerate(blocks):
            exec(compile(block, f"architecture.md, block {number}", "exec"), namespace)
    assert "explored" in capsys.readouterr().out
