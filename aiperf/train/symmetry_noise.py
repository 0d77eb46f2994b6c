"""Seeded noise that breaks the symmetry of copied channels after a widening.

Copies of a channel compute the same values and receive the same gradients, so without noise a widened network would
stay as narrow as its parent. The noise changes the function slightly and is not function-preserving. The caller records
the seed.
"""

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor

from aiperf.train.initialise import normal, stream
from morphism import Gather, WeightPlan


@torch.no_grad()
def break_symmetry(
    state: Mapping[str, Tensor], plan: WeightPlan, seed: int, relative: float = 1e-3
) -> dict[str, Tensor]:
    """Return the state with normal noise on the copies that the plan made.

    Standard deviation: `relative` × the RMS of the whole tensor.

    Noise is added to the second and later copies of a channel, only in the weights of convolutions and dense layers.
    Normalisation is unchanged, because a running variance must stay positive. Input tensors are not modified. Tensors
    without copies are returned as they are. The same plan, state and seed give the same bytes.

    Raises ValueError for weights whose precision is coarser than the noise (bfloat16 for 1e-3), because rounding would
    remove it.
    """
    noisy = dict(state)
    for number, instruction in enumerate(plan.instructions):
        if not isinstance(instruction, Gather):
            continue
        weight, axis, copies = noisy[instruction.tensor], instruction.axis, _repeated(instruction.index)
        if weight.dim() < 2 or not copies:
            continue
        if torch.finfo(weight.dtype).eps > relative:
            raise ValueError(
                f"noise of {relative!r} would be rounded away in {instruction.tensor!r}, which is {weight.dtype}; "
                "break the symmetry of the float32 master weights"
            )
        root_mean_square = torch.linalg.vector_norm(weight, dtype=torch.float64).item() / sqrt(weight.numel())
        shape = list(weight.shape)
        shape[axis] = len(copies)
        noise = normal(shape, relative * root_mean_square, stream("noise", seed, number))
        noisy[instruction.tensor] = weight.index_add(
            axis, torch.tensor(copies, device=weight.device), noise.to(device=weight.device, dtype=weight.dtype)
        )
    return noisy


def _repeated(index: tuple[int, ...]) -> list[int]:
    """Return the positions whose source channel occurred before."""
    seen: set[int] = set()
    return [position for position, source in enumerate(index) if source in seen or seen.add(source)]  # type: ignore[func-returns-value]
