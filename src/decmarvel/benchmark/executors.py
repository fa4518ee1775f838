"""Where batches fly: in this process, or on the machines of a cluster, behind one interface."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from types import TracebackType

import jax

from decmarvel.benchmark.batches import Batch, Flown, fly_batch
from decmarvel.core.jax_setup import enable_compilation_cache, use_all_cores

GPU_BATCH = 300
"""Missions at once on an accelerator: the paper's three budgets with 100 trials each."""
CPU_BATCH = 2
"""Missions at once on a core. A batch takes as long as its longest mission, so small ones waste less time."""


class Executor(ABC):
    """Flies batches. Make it before JAX starts, for it chooses the devices. It knows them when it is entered."""

    gpu: bool
    devices_a_batch: int
    """Devices that share one batch."""
    description: str
    """Where the missions fly and how many at once, for people."""

    def __init__(self, batch: int | None) -> None:
        """`batch` is how many missions to fly at once; None for what suits the devices."""
        self._batch = batch

    @abstractmethod
    def __enter__(self) -> "Executor":
        """Find the devices."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @abstractmethod
    def fly(self, batches: Sequence[Batch]) -> Generator[tuple[Batch, Flown], None, None]:
        """Every batch once, as it is done, in any order. Close the generator to stop."""

    @property
    def batch(self) -> int:
        """Missions of a batch."""
        return self._batch or (GPU_BATCH if self.gpu else CPU_BATCH) * self.devices_a_batch

    @property
    def mix_budgets(self) -> bool:
        """Whether missions of several budgets share a batch. On a CPU short ones would wait for the longest."""
        return self.gpu


class LocalExecutor(Executor):
    """One batch after another in this process, on all its devices."""

    def __init__(self, batch: int | None = None) -> None:
        super().__init__(batch)
        use_all_cores()
        enable_compilation_cache()

    def __enter__(self) -> "Executor":
        devices = jax.devices()
        self.gpu, self.devices_a_batch = devices[0].platform != "cpu", len(devices)
        self.description = f"{amount(len(devices), self.gpu)} of this machine, {self.batch} missions at once"
        return self

    def fly(self, batches: Sequence[Batch]) -> Generator[tuple[Batch, Flown], None, None]:
        for batch in batches:
            yield batch, fly_batch(batch)


def executor(cluster: str | None, batch: int | None) -> Executor:
    """The executor that the options `--cluster` and `--batch` ask for."""
    if cluster is None:
        return LocalExecutor(batch)
    from decmarvel.benchmark.cluster import RayExecutor

    return RayExecutor(cluster, batch)


def amount(devices: int, gpu: bool) -> str:
    """In words."""
    return f"{devices} {'GPU' if gpu else 'core'}{'s' * (devices != 1)}"
