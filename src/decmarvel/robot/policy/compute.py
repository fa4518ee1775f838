"""Settings for the computation of networks. They belong neither to a network nor to its weights."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Compute:
    """Types, kernels and group sizes. They do not change what a network means."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    kernel: Literal["xla", "pallas"] = "xla"
    """Kernel of graph attention. Our Pallas kernel is for NVIDIA GPUs and buckets that are multiples of 64."""
    in_a_row: bool = False
    """Whether gradients use unrolled layers: they run faster than a loop, but compile more slowly."""
    actor_buckets: tuple[int, ...] = ()
    """Numbers of places that a group of graphs may be cut to, if the largest graph of the group fits."""
    critic_buckets: tuple[int, ...] = ()
    group: int = 256
    """Number of graphs of a batch that are computed together, in the order of their size."""
    critic_group: int = 256
    """Number of graphs that critics compute together; their graphs differ less, as they are whole buildings."""
    axis: str | None = None
    """Name of the mesh axis of the devices that learn together; None if there is one device."""

    @property
    def without_gradient(self) -> "Compute":
        """These settings for computations without a gradient: nothing is kept, so a loop over layers is as fast."""
        return replace(self, in_a_row=False)


PLAIN = Compute()
