"""Settings of the process: JAX's compilation cache and its devices. They change no result."""

import contextlib
import os
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import jax

AXIS = "device"
"""Name of the mesh axis of programs that run on several devices."""


def _compilation_cache_folder() -> Path:
    """`$DECMARVEL_CACHE`, else `decmarvel/jax` in the user's cache folder."""
    if chosen := os.environ.get("DECMARVEL_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "decmarvel" / "jax"


@cache
def enable_compilation_cache() -> Path | None:
    """Keep compiled functions on disk, so that only the first run compiles them.

    Call it before the first compilation: JAX opens its cache once. Returns the folder. If the folder cannot be written
    to, it prints one line to stderr and returns None; then every run compiles again.
    """
    try:
        folder = _compilation_cache_folder().absolute()
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
    # A damaged entry (of an interrupted or simultaneous run) is compiled again, so the warning helps no user.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
    return folder


def keep_compiled() -> None:
    """Enable the compilation cache for programs that import the package, unless they have set one of their own."""
    if not jax.config.values["jax_compilation_cache_dir"]:
        enable_compilation_cache()


def usable_cores() -> int:
    """Number of cores of this machine that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def mesh(devices: int) -> jax.sharding.Mesh:
    """A mesh with one axis of the first `devices` devices that JAX knows."""
    return jax.make_mesh((devices,), (AXIS,), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:devices])


def use_all_cores() -> None:
    """Make each core of the CPU one JAX device, unless the environment sets the number of devices.

    Call it before JAX starts; later it has no effect.
    """
    asked = "JAX_NUM_CPU_DEVICES" in os.environ
    if not asked and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", usable_cores())
