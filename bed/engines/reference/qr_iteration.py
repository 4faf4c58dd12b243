"""Stage 3: diagonalise a batch of real symmetric tridiagonal matrices.

Explicit QR iteration by Givens rotations (section 3.2 of the paper): with a shift μ for
every matrix,

    T − μ I = Q R,    T' = R Q + μ I = Qᵀ T Q.

T is held as its diagonal d and its off-diagonal entries e. A pass makes two such
iterations, shifted by the two eigenvalues of the trailing 2 × 2 block of the active
part. The active part is the same for the whole batch: it loses its last row and column
when the last off-diagonal entry of *every* matrix is negligible. A matrix that is ahead
of the others waits, and while it does, the second shift is already at work on its next
eigenvalue. Where only one off-diagonal entry is left at the end of the active part,
with none above it, the two rows are diagonalised in closed form at once.

Rotations are [c s; −s c] with c = x₁/r, s = x₂/r, r = √(x₁² + x₂²), which turn (x₁, x₂)
into (r, 0); the paper writes −s for s, and its supplement the transpose.
"""

from array_api_compat import array_namespace, device

from .tridiagonalize import negligible_square

# Passes after each shrinkage that use the pair of shifts. Later ones aim at the last
# off-diagonal entry that a matrix still has, which always converges, while the pair
# maps some matrices onto themselves (n = 3, zero diagonal, equal off-diagonal entries)
# and comes near to that for a few in every large batch. With one such pass 512 random
# matrices of n = 32 take about 125 iterations in float64, with pairs only about 165.
# Without any pair they would take about 100: one shift, computed anew before each
# iteration, is the faster choice at every n. The pair is kept because it is the paper's
# and this engine is there to be read against it.
PAIRED_PASSES = 1

# Passes without a shrinkage after which a matrix counts as not converging. The slowest
# of 512 random matrices takes four, and nothing tried so far has taken more than eight.
MAX_PASSES = 40


def qr_iteration(d, e, v=None, stats=None):
    """Drive all off-diagonal entries to zero.

    Parameters
    ----------
    d : (batch, n) array
        Diagonal, of order one. Not written.
    e : (batch, n - 1) array
        Off-diagonal entries. Not written.
    v : (batch, n, n) array, optional
        Real or complex. Multiplied from the right by all rotations, in place: P goes in
        and the eigenvectors of A come out.
    stats : EighStats, optional
        Gets the active size of every iteration, the number of closed forms and that of
        operations.

    Returns
    -------
    w : (batch, n) array
        Eigenvalues, unordered.
    converged : (batch,) array of bool
    """
    xp = array_namespace(d, e)
    d, e = xp.asarray(d, copy=True), xp.asarray(e, copy=True)
    converged = xp.ones(d.shape[0], dtype=xp.bool, device=device(d))
    size = settle(d, e, d.shape[1], v, stats)  # rows and columns of the active part
    passes = 0  # since the last shrinkage
    while size > 1:
        size_before = size
        near, far = wilkinson_shifts(*trailing_block(d, e, size))
        for shift in (near, far):
            if passes >= PAIRED_PASSES:
                shift = aimed_shift(d, e, size)
            qr_step(d, e, xp.where(at_rest(e, size), 0, shift), size, v, stats)
            size = settle(d, e, size, v, stats)
            if size == 1:
                break
        passes = passes + 1 if size == size_before else 0
        if passes >= MAX_PASSES:
            stuck = e[:, size - 2] != 0  # (batch,)
            converged = converged & ~stuck
            # As zero matrices they no longer hold up the others.
            d[...] = xp.where(stuck[:, None], 0, d)
            e[...] = xp.where(stuck[:, None], 0, e)
            size = shrink(e, size)
            passes = 0
    return d, converged


def trailing_block(d, e, size):
    """Entries a, b, c of the last block [[a, b], [b, c]] of the active part."""
    return d[:, size - 2], e[:, size - 2], d[:, size - 1]


def wilkinson_shifts(a, b, c):
    """Eigenvalues of [[a, b], [b, c]].

    tan θ = b/(|δ| + √(δ² + b²)) with δ = (a − c)/2 belongs to the rotation by at most
    45° that the supplement derives; in this form nothing is divided by b. (There c is
    printed as 1/√(1 + m²) with m = δ/b, and is 1/√(1 + tan² θ).)

    Parameters
    ----------
    a, b, c : (batch,) arrays

    Returns
    -------
    near, far : (batch,) arrays
        The eigenvalue nearer to c (of two equally near the smaller), and the other one.
    """
    xp = array_namespace(a, b, c)
    delta = (a - c) / 2
    size = xp.abs(delta) + xp.hypot(delta, b)
    tangent = b / xp.where(size == 0, 1, size)
    step = xp.where(delta < 0, -b, b) * tangent
    return c - step, a + step


def settle(d, e, size, v=None, stats=None):
    """Drop negligible entries of e and solve pairs of rows; returns the active size."""
    drop_negligible(d, e)
    size = shrink(e, size)
    while size > 1 and diagonalize_pairs(d, e, size, v, stats):
        size = shrink(e, size)
    return size


def diagonalize_pairs(d, e, size, v=None, stats=None):
    """Diagonalise the last two active rows where they are a block by themselves.

    Returns
    -------
    bool
        Whether that was so in any matrix.
    """
    xp = array_namespace(d, e)
    a, b, c = trailing_block(d, e, size)
    alone = b != 0  # (batch,)
    if size > 2:
        alone = alone & (e[:, size - 3] == 0)
    if not bool(xp.any(alone)):
        return False
    cosine, sine, step = two_by_two(a, xp.where(alone, b, 0), c)
    d[:, size - 2], d[:, size - 1] = a + step, c - step
    e[:, size - 2] = xp.where(alone, 0, b)
    if v is not None:
        rotate_columns(v, size - 2, cosine, sine)
    if stats is not None:
        stats.closed_forms += 1
    return True


def two_by_two(a, b, c):
    """Jacobi's rotation for [[a, b], [b, c]], by at most 45°.

    Parameters
    ----------
    a, b, c : (batch,) arrays

    Returns
    -------
    cosine, sine : (batch,) arrays
    step : (batch,) array
        The eigenvalues are a + step and c − step: exactly 1 and 0 for all entries ½,
        and as `bed.engines.scalar.two_by_two` says in general.
    """
    xp = array_namespace(a, b, c)
    delta = (a - c) / 2
    square = b**2
    size = xp.abs(delta) + xp.sqrt(delta**2 + square)
    size = xp.where(b == 0, 1, size)
    r = xp.sqrt(size**2 + square)
    size, b = xp.where(delta < 0, -size, size), xp.where(delta < 0, -b, b)
    return xp.abs(size) / r, b / r, square / size


def aimed_shift(d, e, size):
    """Wilkinson's shift; for a matrix that waits, the one for its next eigenvalue."""
    xp = array_namespace(d, e)
    a, b, c = trailing_block(d, e, size)
    near, far = wilkinson_shifts(a, b, c)
    return xp.where(b == 0, far, near)


def at_rest(e, size):
    """Matrices (batch,) that are diagonal, to which a shift would only add rounding."""
    xp = array_namespace(e)
    return xp.all(e[:, : size - 1] == 0, axis=1)


def drop_negligible(d, e):
    """Set entries of e that are lost in their neighbours' rounding to zero, in place.

    Zero stays zero in every later iteration, so that a matrix is perturbed at most once
    at each entry. The comparison is such that a NaN is dropped and ends the loop.
    """
    xp = array_namespace(d, e)
    eps = float(xp.finfo(d.dtype).eps)
    floor = negligible_square(xp, d.dtype) ** 0.5
    size = xp.abs(d)
    threshold = eps * (size[:, :-1] + size[:, 1:]) + floor  # (batch, n - 1)
    e[...] = xp.where(xp.abs(e) > threshold, e, 0)


def shrink(e, size):
    """Active size without the last rows that are decoupled in the whole batch."""
    xp = array_namespace(e)
    while size > 1 and bool(xp.all(e[:, size - 2] == 0)):
        size -= 1
    return size


def qr_step(d, e, shift, size, v=None, stats=None):
    """One QR iteration on the leading `size` rows and columns, in place.

    Rotation i makes R upper triangular in column i, and the same rotation from the
    right follows at once, so that it touches rows and columns i − 1 … i + 2 only (the
    economic eigenvalue calculation) and d and e can be overwritten on the way. What is
    carried on is the pivot, entry (i, i) of the half-transformed T − μ I, its right
    neighbour, and the last rotation.

    Parameters
    ----------
    d, e : (batch, n) and (batch, n - 1) arrays
    shift : (batch,) array
        The shift μ of every matrix.
    size : int
        Active size, at least 2.
    v, stats
        As in `qr_iteration`.
    """
    c_before, s_before = 1, 0
    pivot = d[:, 0] - shift  # (batch,)
    right = e[:, 0]
    for i in range(size - 1):
        c, s, r = givens(pivot, e[:, i])
        shifted = d[:, i + 1] - shift
        # Row i of R Q + μ I, from R's diagonal entry r and the one right of it.
        if i > 0:
            e[:, i - 1] = s_before * r
        d[:, i] = c_before * c * r + s * (c * right + s * shifted) + shift
        pivot = c * shifted - s * right
        if i + 1 < size - 1:
            right = c * e[:, i + 1]
        if v is not None:
            rotate_columns(v, i, c, s)
        c_before, s_before = c, s
    e[:, size - 2] = s * pivot
    d[:, size - 1] = c * pivot + shift
    if stats is not None:
        stats.count_qr_step(size, eigenvectors=v is not None)


def givens(x1, x2):
    """Rotation c, s, r that turns (x1, x2) into (r, 0); the identity if x2 is zero."""
    xp = array_namespace(x1, x2)
    idle = x2 == 0
    r = xp.where(idle, 1, xp.hypot(x1, x2))
    c = xp.where(idle, 1, x1 / r)
    return c, x2 / r, xp.where(idle, x1, r)


def rotate_columns(v, i, c, s):
    """Rotate columns i and i + 1 of v in place (economic eigenvector calculation)."""
    c, s = c[:, None], s[:, None]
    left, right = v[:, :, i], v[:, :, i + 1]  # (batch, n)
    new_left = c * left + s * right
    v[:, :, i + 1] = c * right - s * left
    v[:, :, i] = new_left
