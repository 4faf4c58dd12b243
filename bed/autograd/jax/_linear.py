"""Primitives of two arrays: a constant, and what is passed on, linearly."""

from jax.extend.core import Primitive
from jax.interpreters import ad, batching


def linear_primitive(name: str) -> Primitive:
    """A primitive p(constant, x) with x's shape, with the rules that all such have.

    Its tangent is p(constant, dx), and it maps over whatever axes its arguments have in
    common. What it computes, and its transpose, are the caller's to add.
    """
    primitive = Primitive(name)

    def tangent(primals, tangents):
        (constant, x), (_, dx) = primals, tangents
        zero = type(dx) is ad.Zero
        return primitive.bind(constant, x), (
            dx if zero else primitive.bind(constant, dx)
        )

    def mapped(arguments, axes):
        return primitive.bind(*_at_front(arguments, axes)), 0

    ad.primitive_jvps[primitive] = tangent
    batching.primitive_batchers[primitive] = mapped
    return primitive


def _at_front(arguments, axes):
    """Arguments of a mapped function, each with the mapped axis, as its first."""
    (size,) = {
        x.shape[axis]
        for x, axis in zip(arguments, axes, strict=True)
        if axis is not None
    }
    return [
        batching.bdim_at_front(x, axis, size)
        for x, axis in zip(arguments, axes, strict=True)
    ]
