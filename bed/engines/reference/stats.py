"""What one call did, and what section 3.3 of the paper predicts for it.

Operations are counted per matrix and in the unit of the paper's table: a product of a
p × q with a q × r matrix costs p q r, and a Givens rotation of T two products of 4 × 4
matrices. With T held as d and e a rotation takes 13 multiplications and divisions,
which are counted beside it.

Each count belongs to a row of the table:

- `tridiagonalize` is n³ − n − 6 for all reflectors, where the table has n³ + 2n² for
  each of n − 2.
- `back_transform` is about 2n³ + m n², below the table for m > 2: a step of the WY
  recurrence takes two thin products, and the table allows n³ for it.
- `qr_values` is the table's 256 (n − 1 − r) n times iterations/2n: the table assumes
  2n. That is so by definition, as rotations have the table's price.
- `qr_vectors` is far below: rotating two columns of V costs 4n. The table squares the
  number of columns still to come, and multiplies n × n matrices after every iteration.

The row of `qr_vectors` is cubic in r, and the table puts the average r into it. Summed
over the active sizes that there were it is about twice as much.

The table's sum for the vectors is left out: it does not follow from its rows (−3/2 r³
n² for −2/3 r³ n², and the terms in 1/m), and is negative at r = 3n/4 from n = 8 on.

The average r lies between n/3 and 3n/4, as the supplement says, for Gaussian symmetric
matrices from n = 16 on: 0.36 n, 0.40 n and 0.42 n for 512 of n = 16, 24 and 32, on
average over batches. For X Xᵀ with Gaussian X it does from n = 24 on: 0.31 n, 0.35 n
and 0.37 n. It has to be smaller for small n. Two rows take no iteration. With as many
at each active size from n down to 3, r is (n − 3)/2, an eighth of n for n = 4, and size
n takes nearly twice as many as the others, since none of its off-diagonal entries has
been reduced before: 0.09 n and 0.26 n for n = 4 and 8.
"""

from dataclasses import dataclass, field

# Two products of 4 × 4 matrices, the table's price of a rotation of T.
ROTATION_OF_T = 2 * 4**3
# What `qr_step` takes for one: four for c and s, one for e, five for d, and three for
# the pivot and its right neighbour.
ROTATION_OF_D_AND_E = 13


@dataclass
class EighStats:
    """Counts of one call of `eigh`, which fills an empty instance.

    Attributes
    ----------
    n, batch : int
        Shape of the input.
    block : int
        Reflectors in a block of the WY representation, the paper's m.
    active_sizes : list of int
        Size of the active part in every QR iteration; two iterations make a pass.
    rotations : int
        Givens rotations per matrix in these iterations.
    closed_forms : int
        How often the last two active rows of some matrix were diagonalised in closed
        form: one more rotation each time, which the paper does not have and which is
        not among the operations.
    tridiagonalize, back_transform, qr_values, qr_vectors : int
        Operations per matrix.
    """

    n: int = 0
    batch: int = 0
    block: int = 0
    active_sizes: list[int] = field(default_factory=list)
    rotations: int = 0
    closed_forms: int = 0
    tridiagonalize: int = 0
    back_transform: int = 0
    qr_values: int = 0
    qr_vectors: int = 0

    def count_qr_step(self, size: int, *, eigenvectors: bool) -> None:
        """Add one QR iteration on an active part of `size` rows."""
        self.active_sizes.append(size)
        self.rotations += size - 1
        self.qr_values += ROTATION_OF_T * (size - 1)
        if eigenvectors:
            self.qr_vectors += 4 * self.n * (size - 1)

    @property
    def iterations(self) -> int:
        """Number of QR iterations."""
        return len(self.active_sizes)

    @property
    def reductions(self) -> float:
        """Average r: how far the active part has shrunk, averaged over iterations."""
        if not self.active_sizes:
            return 0.0
        return self.n - sum(self.active_sizes) / self.iterations

    @property
    def qr_multiplications(self) -> int:
        """Multiplications and divisions of the rotations of T, per matrix."""
        return ROTATION_OF_D_AND_E * self.rotations

    def table_tridiagonalize(self) -> float:
        """Table: n³ + 2n², for one reflector."""
        return self.n**3 + 2 * self.n**2

    def table_back_transform(self) -> float:
        """Table: (m − 1) n³ + (n − 2) m + (n − 2)² m + (n − 2)³ / m."""
        n, m = self.n, self.block
        return (m - 1) * n**3 + (n - 2) * m + (n - 2) ** 2 * m + (n - 2) ** 3 / m

    def table_qr_values(self) -> float:
        """Table: 256 (n − 1 − r) n, that is 2n iterations of n − 1 − r rotations."""
        return 2 * ROTATION_OF_T * (self.n - 1 - self.reductions) * self.n

    def table_qr_vectors(self) -> float:
        """Table: (n − 2 − r)(n − 1 − r)(2n − 3 − 2r)/6 · 2n² + (2n − 1) n³."""
        n = self.n
        squares = _squares(n - self.reductions)
        return squares * 2 * n**2 + (2 * n - 1) * n**3

    def table_qr_vectors_by_size(self) -> float:
        """The same with the mean over active sizes instead of the mean size."""
        n = self.n
        squares = sum(map(_squares, self.active_sizes)) / max(1, self.iterations)
        return squares * 2 * n**2 + (2 * n - 1) * n**3


def _squares(size: float) -> float:
    """1² + 2² + … + (size − 2)²."""
    return (size - 2) * (size - 1) * (2 * size - 3) / 6
