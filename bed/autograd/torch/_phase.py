"""A watch on eigenvectors under torch: does the loss depend on their phases?"""

import torch

from ..._derivative.eigh import depends_on_phase
from ..._status import name_failures


class PhaseChecked(torch.autograd.Function):
    """``(v, grad_v)`` to ``grad_v``, unless the loss depends on phases.

    A function of its own, because only inside one can values be looked at under vmap.
    """

    @staticmethod
    def forward(v, grad_v):
        depends = depends_on_phase(v, grad_v)
        if depends.any():
            failed = [tuple(index) for index in depends.nonzero().tolist()]
            raise RuntimeError(
                "the loss depends on the phases of the eigenvectors, which are "
                "arbitrary, and has no derivative: " + name_failures(failed)
            )
        return grad_v.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient

    @staticmethod
    def jvp(ctx, _, tangent):
        return None if tangent is None else tangent.clone()

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return PhaseChecked.apply(*all_mapped(info, in_dims, arguments)), 0


def all_mapped(info, in_dims, tensors):
    """Tensors with the mapped axis as their first; those without one get it."""
    return [
        x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
        for x, axis in zip(tensors, in_dims, strict=False)
    ]
