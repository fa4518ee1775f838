"""Batches on the machines of a Ray cluster. Workers fly; the process that started them writes."""

import os
import socket
from collections import deque
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import jax

from decmarvel import __version__
from decmarvel.benchmark.batches import Batch, Flown
from decmarvel.benchmark.executors import Executor, amount
from decmarvel.core.jax_setup import usable_cores

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_RESTARTS = 4
"""Restarts of one worker, and further attempts at one batch, before the run gives up."""


class ClusterError(ValueError):
    """A cluster that cannot be used. The message is one line that names the fix."""


class Worker:
    """Flies batches in a process of its own, on one GPU or on one core."""

    def __init__(self, gpu: bool, version: str, cache: str | None) -> None:
        if not gpu:
            jax.config.update("jax_platforms", "cpu")
            os.environ["NPROC"] = "1"  # the threads that JAX starts
        if cache:
            os.environ["DECMARVEL_CACHE"] = cache
        self._version = version

    def fly(self, batch: Batch) -> Flown:
        from decmarvel.benchmark.batches import fly_batch
        from decmarvel.core.jax_setup import enable_compilation_cache

        if self._version != __version__:
            here = f"a worker has decmarvel {__version__}, this is {self._version}"
            raise ClusterError(f"{here}; install the same version on all machines")
        enable_compilation_cache()
        return fly_batch(batch)


def _check_address(address: str) -> None:
    """Complain at once about an address that does not answer. Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ClusterError(f"--cluster {address}: nobody answers there ({error}); give auto or HOST:PORT") from None


class RayExecutor(Executor):
    """Workers on all free GPUs of a Ray cluster, or on all free cores where it has no GPU."""

    def __init__(self, address: str, batch: int | None = None) -> None:
        """`auto` is the cluster that this machine is a part of, else a new local one."""
        super().__init__(batch)
        jax.config.update("jax_platforms", "cpu")  # the GPUs of this machine are for the workers
        self._address = address

    def __enter__(self) -> "RayExecutor":
        """Join the cluster."""
        address = self._address
        try:
            import ray
        except ImportError:
            raise ClusterError("--cluster needs Ray; install it with: pip install decmarvel[cluster]") from None
        _check_address(address)
        quietly: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        try:
            ray.init(address=address, **quietly)
        except Exception as error:  # Ray raises errors of many types
            if address != "auto" or not isinstance(error, ConnectionError):
                reason = " ".join(str(error).split())[:200]
                raise ClusterError(f"--cluster {address}: cannot join ({reason}); check 'ray status' there") from None
            ray.init(num_cpus=usable_cores(), include_dashboard=False, **quietly)
        free = ray.available_resources()
        self._ray: Any = ray
        self.gpu, self.devices_a_batch = free.get("GPU", 0) >= 1, 1
        self._count = max(1, int(free.get("GPU" if self.gpu else "CPU", 1)))
        self.description = f"{amount(self._count, self.gpu)} of a Ray cluster, {self.batch} missions at once on each"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the workers go; a local cluster ends with them."""
        self._ray.shutdown()

    def fly(self, batches: Sequence[Batch]) -> Generator[tuple[Batch, Flown], None, None]:
        """Batches as they are done, in any order, each once. One whose worker died is flown again."""
        ray, waiting = self._ray, deque((batch, 0) for batch in batches)
        idle = [self._worker() for _ in range(min(self._count, len(batches)))]
        flying: dict[Any, tuple[ActorHandle, Batch, int]] = {}
        while waiting or flying:
            while idle and waiting:
                worker, (batch, attempts) = idle.pop(), waiting.popleft()
                flying[worker.fly.remote(batch)] = (worker, batch, attempts)
            (answer, *_), _ = ray.wait(list(flying))
            worker, batch, attempts = flying.pop(answer)
            try:
                flown: Flown = ray.get(answer)
            except ray.exceptions.RayTaskError as error:  # an error of the batch, not of the machine
                raise error.cause from error
            except ray.exceptions.RayError as error:
                if attempts == _RESTARTS:
                    raise ClusterError(
                        f"a batch of {batch.trials[0].setting} killed {attempts} workers ({error})"
                    ) from None
                waiting.appendleft((batch, attempts + 1))
                idle.append(self._worker())
                continue
            idle.append(worker)
            yield batch, flown

    def _worker(self) -> "ActorHandle":
        share: dict[str, int] = {"num_gpus": 1} if self.gpu else {"num_cpus": 1}
        actor = self._ray.remote(Worker).options(max_restarts=_RESTARTS, max_task_retries=_RESTARTS, **share)
        return actor.remote(self.gpu, __version__, os.environ.get("DECMARVEL_CACHE"))
