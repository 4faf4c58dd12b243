"""From matrices that follow each other to vectors of all lanes, and back.

As many numbers of as many matrices as there are lanes make a square, which is
transposed in registers: half of each pair of vectors changes places, then a quarter,
down to single numbers. One number at a time would take five times as long.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ._compile import WIDE, kernel
from ._simd import minimum

# Registers that a matrix fills, from which on it pays to begin with a part of one.
FAR = 2


@kernel
def load(a, start, count, work, at, total, line, row):
    """Copy matrices of a batch, or vectors, to the lanes of `work`.

    Lanes that are left get the last of the matrices.

    Parameters
    ----------
    a : as `as_rows` has it
    at : int
        Number of the vector of the first entry.
    total : int
        Floats in a matrix, and vectors that they become.
    line, row : int
        Vectors in a row, and from one row to the next.
    """
    k, j, valid = 0, 0, first_part(a, total, work)
    while k < total:
        to_vectors(a, total, start, count, k, valid, work.tile)
        for m in range(valid):
            work.vectors[at] = work.tile[m]
            at, j = _next(at, j, line, row)
        k, valid = k + valid, minimum(work.side, total - k - valid)


@kernel
def store(work, at, total, line, row, start, count, out):
    """The same way back, to `count` matrices of `out`."""
    k, j, valid = 0, 0, first_part(out, total, work)
    while k < total:
        for m in range(valid):
            work.tile[m] = work.vectors[at]
            at, j = _next(at, j, line, row)
        _to_matrices(out, total, start, count, k, valid, work.tile)
        k, valid = k + valid, minimum(work.side, total - k - valid)


def side_of(lanes: int, bytes_: int) -> int:
    """Floats of so many bytes in a register, or lanes, if these are not as many."""
    return min(lanes, WIDE // 2 // bytes_)


@intrinsic
def first_part(typingctx, a, total, work):
    """How many floats to begin with, so that those after them are a line of the cache.

    A register that is stored across two lines takes longer, and across two pages much
    longer. And large matrices may all be at the same place in a page, where the cache
    has not as many lines as there are lanes: none should be needed twice.
    """
    bytes_ = a.dtype.bitwidth // 8
    side = side_of(work.types[work.fields.index("tile")].dtype.lanes, bytes_)

    def build(context, builder, sig, args):
        total = args[1]
        address = builder.ptrtoint(_data(context, builder, sig, args), total.type)
        floats = builder.udiv(address, total.type(bytes_))
        rest = builder.sub(total.type(side), builder.urem(floats, total.type(side)))
        few = builder.icmp_signed("<", total, total.type(side))
        few = builder.select(few, total, total.type(side))
        small = builder.icmp_signed("<", total, total.type(FAR * side))
        return builder.select(small, few, rest)

    return types.intp(a, types.intp, work), build


@intrinsic
def _next(typingctx, at, j, line, row):
    """The next entry of a row of `line` vectors, or that of the next row."""
    pair = types.UniTuple(types.intp, 2)

    def build(context, builder, sig, args):
        at, j, line, row = args
        at, j = (builder.add(x, x.type(1)) for x in (at, j))
        ends = builder.icmp_signed("==", j, line)
        at = builder.select(ends, builder.add(at, builder.sub(row, line)), at)
        j = builder.select(ends, j.type(0), j)
        return context.make_tuple(builder, pair, (at, j))

    return pair(*(types.intp,) * 4), build


@intrinsic
def to_vectors(typingctx, a, total, start, count, k, valid, tile):
    """Floats `k` to ``k + valid``, of `total`, of `count` matrices, to a tile."""
    integers = (types.intp,) * 5

    def build(context, builder, sig, args):
        square = _Square(context, builder, sig, args)
        for lanes in square.groups:
            rows = square.transposed([square.load(lane) for lane in lanes])
            for m, row in enumerate(rows):
                builder.store(row, square.place(m, lanes.start))
        return context.get_dummy_value()

    return types.void(a, *integers, tile), build


@intrinsic
def _to_matrices(typingctx, out, total, start, count, k, valid, tile):
    """The same way back."""
    integers = (types.intp,) * 5

    def build(context, builder, sig, args):
        square = _Square(context, builder, sig, args)
        for lanes in square.groups:
            places = [square.place(m, lanes.start) for m in range(len(lanes))]
            rows = square.transposed([builder.load(place) for place in places])
            for lane, row in zip(lanes, rows, strict=True):
                square.store(lane, row)
        return context.get_dummy_value()

    return types.void(out, *integers, tile), build


def _data(context, builder, sig, args):
    """Where the first of the arguments, a view, begins."""
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).data


class _Square:
    """What both ways have in common: where floats are, and which count.

    Attributes
    ----------
    groups : list of range
        Lanes that are transposed together: as many as a register has floats.
    """

    def __init__(self, context, builder, sig, args):
        _, total, start, count, k, valid, tile = args
        self._builder = builder
        tile_type = sig.args[-1]
        lanes = tile_type.dtype.lanes
        self._float = context.get_value_type(tile_type.dtype).element
        self._bytes = 4 if self._float == ir.FloatType() else 8
        self._side = side_of(lanes, self._bytes)
        self._vector = ir.VectorType(self._float, self._side)
        self.groups = [range(i, i + self._side) for i in range(0, lanes, self._side)]
        tile = cgutils.create_struct_proxy(tile_type)(context, builder, tile)
        self._tile = builder.bitcast(tile.data, self._float.as_pointer())
        self._floats = _data(context, builder, sig, args)
        self._lanes = lanes
        # The last of the matrices once more, where there are none.
        offset = builder.add(builder.mul(start, total), k)
        self._offsets, self._exists = [offset], [None]
        for lane in range(1, lanes):
            exists = builder.icmp_signed("<", count.type(lane), count)
            step = builder.select(exists, total, total.type(0))
            self._offsets.append(builder.add(self._offsets[-1], step))
            self._exists.append(exists)
        counting = ir.Constant(
            ir.VectorType(valid.type, self._side), list(range(self._side))
        )
        limit = builder.insert_element(counting, valid, ir.IntType(32)(0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), self._side), None)
        limit = builder.shuffle_vector(limit, limit, first)
        self._valid = builder.icmp_signed("<", counting, limit)

    def place(self, m, lane):
        """Address of a part of a vector of the tile."""
        at = ir.IntType(64)(m * self._lanes + lane)
        address = self._builder.gep(self._tile, [at])
        return self._builder.bitcast(address, self._vector.as_pointer())

    def load(self, lane):
        """The valid floats of a matrix, and zeros."""
        none = ir.Constant(self._vector, None)
        place = self._place_of(lane)
        return self._masked("load", self._vector, *place, self._valid, none)

    def store(self, lane, vector):
        """The valid floats of a vector to a matrix, if there is one."""
        mask, exists = self._valid, self._exists[lane]
        if exists is not None:
            none = ir.Constant(mask.type, None)
            mask = self._builder.select(exists, mask, none)
        self._masked("store", ir.VoidType(), vector, *self._place_of(lane), mask)

    def _place_of(self, lane):
        """Address, and to what it is aligned."""
        address = self._builder.gep(self._floats, [self._offsets[lane]])
        address = self._builder.bitcast(address, self._vector.as_pointer())
        return address, ir.IntType(32)(self._bytes)

    def _masked(self, name, result, *arguments):
        suffix = f"v{self._side}f{8 * self._bytes}"
        function = cgutils.get_or_insert_function(
            self._builder.module,
            ir.FunctionType(result, [x.type for x in arguments]),
            f"llvm.masked.{name}.{suffix}.p0",
        )
        return self._builder.call(function, arguments)

    def transposed(self, rows):
        """Vectors of the columns of a square, from those of its rows."""
        side, step = self._side, self._side // 2
        while step:
            for upper in range(side):
                if not upper & step:
                    x, y = rows[upper], rows[upper + step]
                    rows[upper] = self._shuffle(
                        x, y, [i - step + side if i & step else i for i in range(side)]
                    )
                    rows[upper + step] = self._shuffle(
                        x, y, [i + side if i & step else i + step for i in range(side)]
                    )
            step //= 2
        return rows

    def _shuffle(self, x, y, order):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self._side), order)
        return self._builder.shuffle_vector(x, y, mask)
