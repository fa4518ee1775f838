"""The whole state of a training run on disk, so that a killed run can go on with the same results."""

import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from decmarvel.core.errors import TrainingError
from decmarvel.core.files import put_whole

T = TypeVar("T")


class CheckpointError(TrainingError):
    """A checkpoint that cannot be used. The message is one line that names the file and the fix."""


def is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def save_state(path: Path, state: Any, about: dict[str, Any]) -> None:
    """Write every array of a pytree in one step; an earlier file stays until the new one is complete."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    arrays = {}
    for place, leaf in leaves:
        value = jax.random.key_data(leaf) if is_key(leaf) else leaf
        arrays[jax.tree_util.keystr(place)] = np.asarray(jax.device_get(value), order="C")
    with put_whole(path) as beside:
        save_file(arrays, beside, metadata={"about": json.dumps(about)})


def read_about(path: Path) -> dict[str, Any]:
    """The notes that were saved with a checkpoint."""
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint; train without --resume first")
    try:
        with safe_open(path, framework="numpy") as file:
            return dict(json.loads(file.metadata()["about"]))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not a checkpoint of a training run ({error}); choose another --out") from None


def load_state(path: Path, like: T) -> T:
    """A pytree of the same shapes as `like`, from a file."""
    read_about(path)
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    found = []
    with safe_open(path, framework="numpy") as file:
        names = set(file.keys())
        for place, leaf in leaves:
            name = jax.tree_util.keystr(place)
            if name not in names:
                raise CheckpointError(
                    f"{path}: '{name}' is missing; it was made by another version: choose another --out"
                )
            value = file.get_tensor(name)
            shape = (*leaf.shape, *value.shape[len(leaf.shape) :]) if is_key(leaf) else leaf.shape
            if value.shape != shape or (not is_key(leaf) and value.dtype != leaf.dtype):
                reason = f"'{name}' is {value.dtype}{list(value.shape)}, not {leaf.dtype}{list(leaf.shape)}"
                raise CheckpointError(f"{path}: {reason}; resume with the settings it was made with")
            found.append(jax.random.wrap_key_data(jnp.asarray(value)) if is_key(leaf) else jnp.asarray(value))
    return jax.tree.unflatten(structure, found)
