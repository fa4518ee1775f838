"""Networks on disk: a safetensors file with the arrays, and a JSON card beside it that says what they are."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from decmarvel import __version__
from decmarvel.core.files import write_whole

VERSION = 2
"""Version of the arrays' meaning. A change to a network that keeps its shapes raises it. Version 1 had other names."""

Kind = Literal["actor", "critic"]
T = TypeVar("T", bound=eqx.Module)


class WeightsError(ValueError):
    """Weights that cannot be used. The message is one line that names the file and the fix."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Results of one evaluation setting."""

    maps: str
    robots: int
    budget_m: float
    missions: int
    success: float
    metres_to_99: float | None
    """Mean over the missions that succeeded; None if none did."""
    overlap: float


@dataclasses.dataclass(frozen=True)
class Card:
    """What the card says about the weights."""

    kind: Kind
    planner: str
    """Name of the planner that uses the actor, or that the critic was trained for."""
    network: Any
    """The sizes of the network: the configuration that builds it."""
    seed: int
    wall_time_s: float
    evaluation: tuple[Evaluation, ...] = ()
    command: str = ""
    """Command that trained the network."""
    parent: str = ""
    """Fingerprint of the weights that training began with; empty if it began from scratch."""
    version: int = VERSION
    package_version: str = __version__


def card_path(path: str | Path) -> Path:
    return Path(path).with_suffix(".json")


def critic_paths(path: str | Path, count: int) -> list[Path]:
    """Paths of the critics of an actor, one file each."""
    path = Path(path)
    return [path.with_name(f"{path.stem}-critic-{number}{path.suffix}") for number in range(1, count + 1)]


def fingerprint(network: eqx.Module) -> str:
    """Identifier of a network's weights on cards and in result rows: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for leaf in map(np.asarray, jax.tree.leaves(eqx.filter(network, eqx.is_array))):
        digest.update(f"{leaf.dtype} {leaf.shape} ".encode() + leaf.tobytes())
    return digest.hexdigest()[:16]


def known_fingerprint(path: str | Path) -> str:
    """The fingerprint that the card of a weights file has."""
    return str(_read_fields(Path(path))["fingerprint"])


def named_arrays(network: eqx.Module) -> dict[str, Any]:
    """The arrays of a network (or their shapes) by name: "graph.layers.0.feed_in.weight"."""
    leaves = jax.tree_util.tree_leaves_with_path(network)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def save_weights(path: str | Path, network: eqx.Module, card: Card) -> None:
    """Write both files. The card has the fingerprint of the weights, so files of two networks cannot be mixed up."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise WeightsError(f"{path}: weights are written as .safetensors; name the file so")
    content = save({name: np.ascontiguousarray(leaf) for name, leaf in named_arrays(network).items()})
    fields = dataclasses.asdict(card) | {"fingerprint": fingerprint(network)}
    try:
        write_whole(path, lambda file: file.write(content))
        write_whole(card_path(path), lambda file: file.write(f"{json.dumps(fields, indent=2)}\n".encode()))
    except OSError as error:
        raise WeightsError(f"{path}: cannot be written ({error.strerror}); choose another place") from None


def read_card(path: str | Path, kind: Kind, configs: Mapping[str, type[Any]]) -> Card:
    """The card of a weights file, which must be of this kind. `configs`: the networks of the planners by name."""
    fields = _read_fields(Path(path))
    place = card_path(path)
    if fields["version"] != VERSION:
        made = f"written in version {fields['version']} by decmarvel {fields.get('package_version')}"
        fix = "update decmarvel" if fields["version"] > VERSION else "train again, or use that version"
        raise WeightsError(f"{place}: {made}, this is {__version__} and reads version {VERSION}; {fix}")
    try:
        evaluation = tuple(_typed(Evaluation, each) for each in fields["evaluation"])
        known = {name: value for name, value in fields.items() if name != "fingerprint"}
        network = _typed(configs[fields["planner"]], fields["network"])
        card = _typed(Card, known | {"network": network, "evaluation": evaluation})
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(place, error) from None
    if card.kind != kind:
        raise WeightsError(f"{path}: these are the weights of a {card.kind}, not of a {kind}; name the other file")
    return card


def load_weights(path: str | Path, like: T) -> T:
    """A network of the same shape as `like` (arrays, or shapes from `eqx.filter_eval_shape`)."""
    path = Path(path)
    fields = _read_fields(path)
    try:
        found = load(path.read_bytes())
    except SafetensorError as error:
        raise _damaged(path, error) from None
    wanted = named_arrays(like)
    for name in sorted(wanted.keys() | found.keys()):
        _check(path, name, wanted.get(name), found.get(name))
    leaves = [jnp.asarray(found[name]) for name in wanted]
    network = jax.tree.unflatten(jax.tree.structure(like), leaves)
    if fingerprint(network) != fields["fingerprint"]:
        raise WeightsError(f"{path}: not the weights that {card_path(path).name} describes; copy both files again")
    return network


def _check(path: Path, name: str, wanted: Any, found: np.ndarray | None) -> None:
    fix = f"load it with the network that {card_path(path).name} describes, or train again"
    if found is None:
        raise WeightsError(f"{path}: has no '{name}', which this network needs; {fix}")
    if wanted is None:
        raise WeightsError(f"{path}: has '{name}', which this network does not know; {fix}")
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        what = f"{found.dtype}{list(found.shape)}, and this network needs {wanted.dtype}{list(wanted.shape)}"
        raise WeightsError(f"{path}: '{name}' is {what}; {fix}")


def _read_fields(path: Path) -> dict[str, Any]:
    place = card_path(path)
    if not path.is_file():
        raise WeightsError(f"{path}: there is no such file; give the .safetensors file of a trained network")
    if not place.is_file():
        raise WeightsError(f"{place}: the card of {path.name} is missing; keep the two files together")
    try:
        fields = json.loads(place.read_bytes())
        if not isinstance(fields["version"], int):
            raise TypeError("version")
        if fields["version"] == VERSION and not isinstance(fields["fingerprint"], str):
            raise TypeError("fingerprint")
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(place, error) from None
    return dict(fields)


def _typed(kind: type, fields: dict[str, Any]) -> Any:
    """A dataclass from fields of the right names and types."""
    made = kind(**fields)
    for field in dataclasses.fields(made):
        value: Any = getattr(made, field.name)
        options = get_args(field.type) or (field.type,)
        if field.type is Kind:
            fits = value in options
        elif dataclasses.is_dataclass(value) or isinstance(value, tuple):
            fits = True
        else:
            numbers = float in options and type(value) is int
            fits = numbers or type(value) in options
        if not fits:
            raise TypeError(f"{field.name}: {value!r}")
    return made


def _damaged(path: Path, reason: object) -> WeightsError:
    return WeightsError(f"{path}: damaged ({' '.join(str(reason).split())}); copy the weights and their card again")
