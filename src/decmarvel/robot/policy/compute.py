"""How networks are computed: no part of a network, and no part of its weights."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Compute:
    """Types, kernels and group sizes. None of it changes what a network means."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    kernel: Literal["xla", "pallas"] = "xla"
    """Of graph attention. Ours in Pallas is for NVIDIA GPUs and buckets that are multiples of 64."""
    in_a_row: bool = False
    """Gradients through layers written out one after the other: quicker, but longer to compile than a loop."""
    actor_buckets: tuple[int, ...] = ()
    """Places that a group of graphs may be cut to, if they are enough for the largest of the group."""
    critic_buckets: tuple[int, ...] = ()
    group: int = 256
    """Graphs of a batch that are computed together, in the order of their size."""
    critic_group: int = 256
    """The same for critics, whose graphs differ less: whole buildings."""
    axis: str | None = None
    """Of the devices that learn together, inside a program for all of them."""

    @property
    def without_gradient(self) -> "Compute":
        """For what needs none: nothing is kept on the way, so a loop is as quick."""
        return replace(self, in_a_row=False)


PLAIN = Compute()
