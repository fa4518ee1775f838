"""Settings of every test: checked shapes, no silent promotion, compiled functions kept between runs."""

import os
import signal
from pathlib import Path

import hypothesis
import jax
import pytest
from jaxtyping import install_import_hook

from paths import ROOT

# Must come before anything imports the package.
install_import_hook("decmarvel", "beartype.beartype")

# Says what differs, as in files of tests.
pytest.register_assert_rewrite("robot.planners.checks")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 2)  # for what is shared among devices

# A shell starts background jobs deaf to Ctrl-C, and commands that tests start and interrupt would inherit it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# In the environment, so that commands started by tests share it.
os.environ.setdefault("DECMARVEL_CACHE", str(ROOT / ".pytest_cache" / "jax"))

from decmarvel.core.jax_setup import enable_compilation_cache  # noqa: E402

enable_compilation_cache()

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


MANY_MAPPINGS = 20_000
"""Pieces of a process's memory. Linux allows 65,530, compiled functions take hundreds each, and then JAX crashes."""


@pytest.fixture(scope="module", autouse=True)
def room_for_compiled_functions():
    """Forget compiled functions when there are many; those that were slow to compile are still on disk."""
    yield
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MANY_MAPPINGS:
        jax.clear_caches()


@pytest.fixture(scope="module")
def quick_compilation():
    """For tests of large programs that run for a moment."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
