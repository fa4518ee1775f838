"""Write docs/api.md: every name that `decmarvel` exports, with its signature and docstring.

    python docs/make_api.py            # or: make api
    python docs/make_api.py --check    # only say whether the page is up to date

Signatures, fields and texts are read from the source, so the page says what the code says.
"""

import argparse
import ast
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import decmarvel

PAGE = Path(__file__).with_name("api.md")
WIDTH = 116
SECTIONS = {
    "Missions": ("fly", "record", "replay", "Mission", "Flight", "Outcome", "Moment"),
    "Buildings": ("generate", "load_map", "Building", "MapError"),
    "Teams and constants": ("Member", "Team", "read_team", "TeamError", "Fleet", "Config"),
    "Planners": ("planner", "Planner", "LocalView", "Proposal", "PlannerError", "WeightsError"),
    "Recordings": ("Recording", "load_recording", "RecordingError"),
}
BEGIN = """# The Python API

`make api` writes this page from the docstrings; edit those, not the page. Everything here is imported from `decmarvel`
itself. Names load what they need when they are asked for, so `import decmarvel` takes no time.

One call flies a mission from take-off to the last landing:

```python
from decmarvel import fly, generate

building = generate("indoor", index=7)
outcome = fly(building, "sector", robots=2, budget_m=80.0, seed=1)
print(f"{outcome.coverage:.1%} explored; home: {outcome.home}")
```

For a loop of your own, take off and step. The same arguments make the same mission:

```python
from decmarvel import Mission

flight = Mission(building, "sector", robots=2, budget_m=80.0, seed=1).take_off()
for moment in flight:
    print(f"decision {flight.decisions}: {flight.coverage:.1%}, {moment.budget_mm / 1000} m left")
```

Record a mission, keep the record, and make a page to watch it on:

```python
from decmarvel import record, replay

recording = record(building, "sector", robots=2, budget_m=80.0, seed=1)
recording.save("mission.npz")
print(replay("mission.npz"))
```

A planner of your own is a class with two methods, and thousands of missions at once are a `vmap`: both are in
[architecture.md](architecture.md#your-own-planner). Compiled programs are kept in `~/.cache/decmarvel/jax`, or in
`$DECMARVEL_CACHE`, unless JAX has a compilation cache already. What cannot be done is a `ValueError` (`MapError` and so
on are kinds of it) whose message is one line that names the fix.
"""


def page() -> str:
    parts = [BEGIN]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [describe(name) for name in names]
    return "\n".join(parts)


def describe(name: str) -> str:
    """One name's part of the page."""
    thing = getattr(decmarvel, name)
    module = importlib.import_module(thing.__module__)
    tree = ast.parse(inspect.getsource(module))
    node = next(node for node in tree.body if getattr(node, "name", "") == thing.__name__)
    lines = [f"### `{name}`\n"]
    if isinstance(node, ast.FunctionDef):
        return "\n".join([*lines, code(signature(name, node, module)), f"\n{text_of(node)}\n"])
    assert isinstance(node, ast.ClassDef)
    methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
    made = next((method for method in methods if method.name == "__init__" and method.args.args[1:]), None)
    if made:
        lines.append(code(signature(name, made, module)) + "\n")
    lines.append(f"{text_of(node)}\n")
    items = [*fields(node), *(method_item(method, module) for method in methods if method.name[0] != "_")]
    return "\n".join([*lines, *items, ""] if items else lines)


def fields(node: ast.ClassDef) -> list[str]:
    """The fields of a class: type, default, and the text below."""
    found = []
    for child, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            default = f" = {written(child.value)}" if child.value and simple(child.value) else ""
            about = after.value.value if is_text(after) else ""
            found.append(item(f"{child.target.id}: {written(child.annotation)}{default}", about))
    return found


def method_item(node: ast.FunctionDef, module: Any) -> str:
    marks = {decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)}
    if {"property", "cached_property"} & marks:
        assert node.returns is not None
        return item(f"{node.name}: {written(node.returns)}", text_of(node))
    return item(signature(node.name, node, module), text_of(node))


def item(what: str, about: str) -> str:
    return textwrap.fill(
        f"- `{what}`. {' '.join(about.split())}" if about else f"- `{what}`",
        WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def signature(name: str, node: ast.FunctionDef, module: Any) -> str:
    """As in the source, without `self`; a constant that is a default is replaced by its value."""
    arguments = node.args
    if arguments.args and arguments.args[0].arg == "self":
        arguments.args = arguments.args[1:]
    for defaults in (arguments.defaults, arguments.kw_defaults):
        for place, default in enumerate(defaults):
            if isinstance(default, ast.Name | ast.Attribute):
                defaults[place] = constant(eval(ast.unparse(default), vars(module)))  # type: ignore[call-overload]
    returns = f" -> {written(node.returns)}" if node.returns and node.name != "__init__" else ""
    line = f"{name}({written(arguments).replace('=', ' = ')}){returns}"
    return re.sub(r"(: |-> )\"(\w+)\"", r"\1\2", line)  # types that are named in quotes


def constant(value: Any) -> ast.expr:
    """A default's value; of an object with nothing but defaults of its own, its class."""
    if value is None or isinstance(value, str | int | float | tuple):
        return ast.Constant(value)
    assert value == type(value)()
    return ast.Call(ast.Name(type(value).__name__), [], [])


def written(node: ast.AST) -> str:
    return ast.unparse(node).replace("'", '"')


def simple(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Tuple) and all(map(simple, value.elts)))


def is_text(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def text_of(node: ast.FunctionDef | ast.ClassDef) -> str:
    return ast.get_docstring(node) or ""


def code(text: str) -> str:
    return "\n".join(["```text", *textwrap.wrap(text, WIDTH, subsequent_indent="    "), "```"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the page is stale")
    if not parser.parse_args().check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        print("docs/api.md is not what the docstrings say; run 'make api'", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
