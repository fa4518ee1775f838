"""How the process runs, apart from what it computes: JAX's compilation cache, its devices."""

import contextlib
import os
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import jax

AXIS = "device"
"""Of programs that run on several devices."""


def compilation_cache_folder() -> Path:
    """`$DECMARVEL_CACHE`, else `decmarvel/jax` in the user's cache folder."""
    if chosen := os.environ.get("DECMARVEL_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "decmarvel" / "jax"


@cache
def enable_compilation_cache() -> Path | None:
    """Keep compiled functions on disk, so that only the first run waits for them.

    Call it before the first compilation: JAX opens its cache once. Returns the folder, or None after one line on stderr
    when there is none that can be written to; everything still works, and compiles anew in every run.
    """
    try:
        folder = compilation_cache_folder().absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        print(
            f"decmarvel: no compilation cache, so every run compiles anew ({error}). "
            "Set DECMARVEL_CACHE to a folder that can be written to.",
            file=sys.stderr,
        )
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # An entry torn by an interrupted or simultaneous run is compiled again: no news to the user.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
    return folder


def keep_compiled() -> None:
    """For programs that import the package: the same, unless they have chosen a compilation cache of their own."""
    if not jax.config.values["jax_compilation_cache_dir"]:
        enable_compilation_cache()


def usable_cores() -> int:
    """Cores of this machine that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def mesh(devices: int) -> jax.sharding.Mesh:
    """The first devices that JAX knows, in a row."""
    return jax.make_mesh((devices,), (AXIS,), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:devices])


def use_all_cores() -> None:
    """Make each core of the CPU a device of its own, unless the environment says how many there shall be.

    Call it before JAX has started; later it changes nothing.
    """
    asked = "JAX_NUM_CPU_DEVICES" in os.environ
    if not asked and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", usable_cores())
