"""Functions of a number that a caller writes, traced, with what they close over."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from ..._derivative.funm import differences_of


class Given:
    """f, f′ and f″ as functions of a number and of what f closes over.

    In the array of a mapped function each of these may have leading axes in common with
    the numbers; `with_parameters` is told how many.
    """

    def __init__(self, f, df, d2f, dtype):
        def one(function):
            def cast(x):
                y = jnp.asarray(function(x))
                if y.shape:
                    raise ValueError(
                        f"f and its derivatives must return a number for a number, "
                        f"got an array of shape {y.shape}"
                    )
                if jnp.iscomplexobj(y):
                    raise TypeError(f"f has to be real, and returned {y.dtype}")
                return y.astype(dtype)

            return cast

        f = one(f)
        df = jax.grad(f) if df is None else one(df)
        d2f = jax.grad(df) if d2f is None else one(d2f)
        number = jax.ShapeDtypeStruct((), dtype)
        self._traced = [jax.make_jaxpr(g)(number) for g in (f, df, d2f)]
        self.parameters = [x for traced in self._traced for x in traced.consts]

    def with_parameters(self, parameters, mapped=None):
        """The three as functions of arrays."""
        parameters = list(parameters)
        mapped = [0] * len(parameters) if mapped is None else list(mapped)
        functions = []
        for traced in self._traced:
            count = len(traced.consts)
            own, axes = parameters[:count], mapped[:count]
            del parameters[:count], mapped[:count]
            functions.append(partial(_elementwise, traced.jaxpr, own, axes))
        return functions

    def first(self, w, parameters, mapped=None):
        f, df, _ = self.with_parameters(parameters, mapped)
        return differences_of(w, f, df)


def _elementwise(jaxpr, parameters, mapped, x):
    def of_number(x, *parameters):
        (y,) = jaxpr_as_fun(ClosedJaxpr(jaxpr, list(parameters)))(x)
        return y

    function = of_number
    for axis in reversed(range(x.ndim)):
        axes = [0 if axis < many else None for many in mapped]
        function = jax.vmap(function, in_axes=(0, *axes))
    return function(x, *parameters)
