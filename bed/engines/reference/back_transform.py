"""Stage 2: multiply the reflectors of stage 1 together.

P = H₀ H₁ … H₍n₋₃₎ D through the WY representation (theorem 1 of the paper): m
successive reflectors have the product

    H₁ … Hₘ = I − 2 W Yᴴ,

where the columns of Y are the vectors u, and those of W follow from

    (I − 2 W Yᴴ)(I − 2 u uᴴ/‖u‖²) = I − 2 [W, w] [Y, u]ᴴ,   w = (u − 2 W (Yᴴ u))/‖u‖².

The sequence is cut into blocks of m reflectors. W and Y of all blocks of all matrices
are formed at the same time, in m steps, and then one block after the other is
multiplied on.
"""

from array_api_compat import array_namespace, device

# Reflectors in a block, the paper's m. There are m dependent steps inside the blocks
# and (n − 2)/m between them, fewest for m = √(n − 2): 8 near n = 64, and only a step or
# two too many for smaller n.
BLOCK = 8


def back_transform(u, weights, phases, block=BLOCK, stats=None):
    """Form P from what `tridiagonalize` returns.

    Parameters
    ----------
    u : (batch, n, reflectors) array
        Vectors of the reflectors.
    weights : (batch, reflectors) real array
        1/‖u‖², or 0 for H = I.
    phases : (batch, n) array
        Diagonal of D.
    block : int
        The paper's m. It changes the cost and the rounding only.
    stats : EighStats, optional
        Gets the block size and the number of operations.

    Returns
    -------
    p : (batch, n, n) array
    """
    xp = array_namespace(u, weights, phases)
    batch, n, _ = u.shape
    p = xp.eye(n, dtype=u.dtype, device=device(u))
    p = xp.broadcast_to(p, (batch, n, n))
    w, y = wy(u, weights, block, stats)
    for i in range(w.shape[1]):
        w_i, yh_i = w[:, i, :, :], conjugate_transpose(y[:, i, :, :])
        # The first P is the identity.
        pw = w_i if i == 0 else xp.matmul(p, w_i)  # (batch, n, block)
        p = p - 2 * xp.matmul(pw, yh_i)
        if stats is not None:
            stats.back_transform += (1 if i == 0 else 2) * n * n * w_i.shape[2]
    if stats is not None:
        stats.block = w.shape[3]
    return p * phases[:, None, :]


def wy(u, weights, block=BLOCK, stats=None):
    """Give every block of reflectors its W and Y.

    Parameters
    ----------
    u, weights, stats
        As in `back_transform`.
    block : int
        Reflectors in a block, or all if there are fewer. The last block is filled up
        with H = I.

    Returns
    -------
    w, y : (batch, blocks, n, block) arrays
        Block i stands for I − 2 W Yᴴ, the product of its reflectors in their order.
    """
    xp = array_namespace(u, weights)
    batch, n, reflectors = u.shape
    block = max(1, min(block, reflectors))
    blocks = -(-reflectors // block)
    y = xp.zeros((batch, n, blocks * block), dtype=u.dtype, device=device(u))
    y[:, :, :reflectors] = u
    y = xp.reshape(y, (batch, n, blocks, block))
    y = xp.permute_dims(y, (0, 2, 1, 3))  # (batch, blocks, n, block)
    factors = xp.zeros((batch, blocks * block), dtype=weights.dtype, device=device(u))
    factors[:, :reflectors] = weights
    factors = xp.reshape(factors, (batch, blocks, 1, block))
    w = xp.zeros_like(y)
    w[..., :1] = factors[..., :1] * y[..., :1]
    for j in range(1, block):
        u_j = y[..., j : j + 1]  # (batch, blocks, n, 1)
        overlap = xp.matmul(conjugate_transpose(y[..., :j]), u_j)  # Yᴴ u
        product = xp.matmul(w[..., :j], overlap)  # W (Yᴴ u)
        w[..., j : j + 1] = factors[..., j : j + 1] * (u_j - 2 * product)
        if stats is not None:
            stats.back_transform += 2 * blocks * n * j
    return w, y


def conjugate_transpose(z):
    """zᴴ of the last two axes."""
    xp = array_namespace(z)
    return xp.conj(xp.matrix_transpose(z))
