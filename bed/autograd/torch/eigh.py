"""The solvers for tensors that torch differentiates or records.

`bed.eigh` comes here by itself with such a tensor; there is no need to import this.
There are two ways in. Eager autograd applies a function that has every derivative.
Whatever records a program (torch.compile, export, jit.trace, make_fx, fake and meta
tensors) gets a registered operator into it, whose derivative is the same function.
"""

import torch

from ..._derivative.method import Method
from ..._dispatch.interop.torch import recorded
from ..._dispatch.normalize import raise_unless_check
from ._function import Eigh
from ._operators import eigh_operator, eigvalsh_operator


def eigh(a: torch.Tensor, uplo, check, driver, method: Method):
    """`bed.eigh` for tensors that torch differentiates or records: ``(w, v, status)``.

    The gradient is that of a matrix varied within the Hermitian ones, whatever triangle
    is read: it is Hermitian and fills both triangles, as that of `torch.linalg.eigh`.
    The status has no derivative. Writing into the eigenvalues or eigenvectors before
    backward raises in backward, as torch does for its own functions.
    """
    if not recorded(a):
        return Eigh.apply(a, uplo, check, driver, method)
    if method.check_phase:
        raise NotImplementedError(
            "check_phase=True cannot raise inside torch.compile and what else records "
            "a program, where there are no values to look at: check outside of it"
        )
    return eigh_operator(a, uplo, word(check), driver, *method[:2])


def eigvalsh(a: torch.Tensor, uplo, check, driver):
    """`bed.eigvalsh` for such tensors: ``(w, status)``.

    The eigenvectors are computed too if a gradient may be asked for, because it is made
    of them. Writing into the eigenvalues is allowed.
    """
    if recorded(a):
        return eigvalsh_operator(a, uplo, word(check), driver)
    w, _, status = Eigh.apply(a, uplo, check, driver, Method())
    return w.clone(), status  # the other w is saved for backward


def word(check) -> str:
    """What an operator, whose arguments have one type each, gets for `check`."""
    raise_unless_check(check)
    return check if isinstance(check, str) else str(bool(check))


def eigh_scriptable(
    a: torch.Tensor, UPLO: str = "L"
) -> tuple[torch.Tensor, torch.Tensor]:
    """`bed.eigh` for code that `torch.jit.script` compiles, as `bed.linalg` has it.

    TorchScript takes neither options by keyword alone nor arrays of other libraries.

    Parameters
    ----------
    a : torch.Tensor, shape (..., n, n)
    UPLO : {"L", "U"}, optional
        The triangle that is read.

    Returns
    -------
    eigenvalues : torch.Tensor, shape (..., n), real
        Ascending.
    eigenvectors : torch.Tensor, shape (..., n, n)
        As columns.
    """
    w, v, _ = torch.ops.bed.eigh(a, UPLO)
    return w, v
