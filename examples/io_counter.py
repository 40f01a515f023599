"""Attention on a machine with a small fast memory that counts every number it loads and stores.

All arithmetic happens in a fast memory of M numbers; q, k, v and everything larger lie in a slow one without limit.
Two algorithms compute exact attention of one head, on real numbers, and what crosses between the two memories is counted:

    algorithm 0   the scores and the probabilities, S x S each, go through slow memory
    flash         a tile of Br queries stays while K and V pass by in tiles of Bc rows: nothing S x S is ever stored

    python io_counter.py                                                 the tables of the lesson
    python io_counter.py --S 64 --d 8 --Br 16 --Bc 8 --M 700 --causal    your own machine and tiles

Sources: Dao et al., FlashAttention (arXiv 2205.14135), Algorithm 0 and Theorem 2: Θ(S·d + S²) against Θ(S²·d²/M);
the order of the loops is that of FlashAttention-2 (arXiv 2307.08691), section 3.1.
Left out: batch and heads (they multiply), rounding, the log-sum-exp that a kernel stores beside o (one number a row), and
caches: hbm_traffic.py measures how much of this an L2 cache keeps from device memory.
"""

import argparse
import sys
from math import exp, fsum, inf, sqrt
from random import Random

KERNEL = {"Br": 128, "Bc": 64}          # the tile of PyTorch's flash kernel at d = 128 (not on compute capability 8.6 and 8.9)


class Chip:
    """A fast memory of M numbers. Counts loads, stores, and the most it ever held.

    Matrices are lists of rows. Raises ValueError when more than M numbers would have to be held at once.
    """

    def __init__(self, M):
        self.M, self.held, self.peak, self.loads, self.stores = M, 0, 0, 0, 0

    def load(self, rows):
        """Rows of slow memory, copied in."""
        self.loads += size(rows)
        return self.hold([list(row) for row in rows])

    def store(self, tile):
        """The tile, copied out. It stays on the chip until it is freed."""
        self.stores += size(tile)
        return [list(row) for row in tile]

    def make(self, rows, columns, value=0.0):
        """Room for a matrix that is computed here."""
        return self.hold([[value] * columns for _ in range(rows)])

    def hold(self, tile):
        self.held += size(tile)
        self.peak = max(self.peak, self.held)
        if self.held > self.M:
            raise ValueError(f"the fast memory holds M = {self.M} numbers, and {self.held} are needed at once")
        return tile

    def free(self, *tiles):
        self.held -= sum(size(tile) for tile in tiles)


def size(matrix):
    return sum(len(row) for row in matrix)


# Algorithm 0: three matrices of slow memory, one after the other; a fourth if the division is a pass of its own.

def algorithm_0(chip, q, k, v, Br, Bc, causal=False, divide=False):
    """softmax(q kᵀ / sqrt(d)) v through slow memory. q, k, v [S, d]; returns o [S, d].

    Br and Bc are the rows and columns of the tiles in which the two products are computed. divide=True takes the division
    by sqrt(d) out of the first product, as `q @ k.T / sqrt(d)` does in a program: one more round trip.
    Raises ValueError when a tile, or one whole row of scores, does not fit on the chip.
    """
    S, scale = len(q), sqrt(len(q[0]))
    s = [[] for _ in q]                                                # [S, S] in slow memory
    for i in range(0, S, Br):
        q_i = chip.load(q[i : i + Br])                                 # [Br, d]
        for j in range(0, S, Bc):
            k_j = chip.load(k[j : j + Bc])                             # [Bc, d]
            s_ij = chip.make(len(q_i), len(k_j))                       # [Br, Bc]
            write_scores(s_ij, q_i, k_j, 1 if divide else scale, causal, i, j)
            for row, part in zip(s[i : i + Br], chip.store(s_ij)):
                row += part
            chip.free(k_j, s_ij)
        chip.free(q_i)
    if divide:
        s = [row_by_row(chip, row, lambda x: [s_j / scale for s_j in x]) for row in s]
    p = [row_by_row(chip, row, softmax) for row in s]                  # [S, S] in slow memory
    o = []                                                             # [S, d] in slow memory
    for i in range(0, S, Br):
        o_i = chip.make(len(p[i : i + Br]), len(v[0]))                 # [Br, d]
        for j in range(0, S, Bc):
            p_ij = chip.load([row[j : j + Bc] for row in p[i : i + Br]])   # [Br, Bc]
            v_j = chip.load(v[j : j + Bc])                             # [Bc, d]
            for o_row, p_row in zip(o_i, p_ij):
                add_weighted(o_row, p_row, v_j)
            chip.free(p_ij, v_j)
        o += chip.store(o_i)
        chip.free(o_i)
    return o


def row_by_row(chip, row, change):
    """One row of S numbers in, changed, and out again."""
    x = chip.load([row])
    x[0] = change(x[0])
    (out,) = chip.store(x)
    chip.free(x)
    return out


def algorithm_0_traffic(S, d, Br, divide=False):
    """(loads, stores) of algorithm_0 in numbers: k and v come in once for each tile of rows, and each S x S goes out and in."""
    round_trips = 3 if divide else 2
    return 2 * -(-S // Br) * S * d + S * d + round_trips * S * S, round_trips * S * S + S * d


# Flash: nothing S x S.

def flash_attention(chip, q, k, v, Br, Bc, causal=False, numbers=True):
    """The same function, tile by tile. q, k, v [S, d]; returns o [S, d].

    numbers=False moves the tiles and leaves the arithmetic out: the counts are the same and S may be large.
    Raises ValueError when the tiles do not fit on the chip, flash_room() numbers are needed, or k and v are not as long as q.
    """
    if not len(q) == len(k) == len(v):
        raise ValueError(f"q has {len(q)} rows, k {len(k)} and v {len(v)}: here they are one sequence")
    S, d = len(q), len(q[0])
    o = []                                                             # [S, d] in slow memory
    for i in range(0, S, Br):
        q_i = chip.load(q[i : i + Br])                                 # [Br, d], stays
        m, l = chip.make(len(q_i), 1, -inf), chip.make(len(q_i), 1)    # [Br, 1]
        o_i = chip.make(len(q_i), d)                                   # [Br, d]
        for j in range(0, i + len(q_i) if causal else S, Bc):          # tiles behind the diagonal are skipped
            k_j, v_j = chip.load(k[j : j + Bc]), chip.load(v[j : j + Bc])   # [Bc, d], pass by
            s_ij = chip.make(len(q_i), len(k_j))                       # [Br, Bc], never leaves
            if numbers:
                write_scores(s_ij, q_i, k_j, sqrt(d), causal, i, j)
                for rows in zip(s_ij, m, l, o_i):
                    fold_in(*rows, v_j)
            chip.free(k_j, v_j, s_ij)
        if numbers:
            o_i[:] = [[x / l_row[0] for x in o_row] for o_row, l_row in zip(o_i, l)]
        o += chip.store(o_i)
        chip.free(q_i, m, l, o_i)
    return o


def fold_in(s, m, l, o, v_j):
    """A tile of one row's scores joins its running maximum m, normaliser l (lists of one number) and weighted sum o."""
    m_new = max(m[0], *s)
    rescale = exp(m[0] - m_new)
    p = [exp(s_j - m_new) for s_j in s]
    l[0] = rescale * l[0] + sum(p)
    o[:] = [rescale * x for x in o]
    add_weighted(o, p, v_j)
    m[0] = m_new


def flash_traffic(S, d, Br, Bc, causal=False):
    """(loads, stores) of tiled attention in elements, for one head: q in once, o out once, k and v in for each Q tile.

    With a causal mask a Q tile reads up to the KV tile that holds the diagonal of its last row, and no further.
    """
    loads = 0
    for i in range(0, S, Br):
        rows = min(Br, S - i)
        keys = min(-(-(i + rows) // Bc) * Bc, S) if causal else S
        loads += rows * d + 2 * keys * d
    return loads, S * d


def flash_room(d, Br, Bc):
    """The numbers on the chip at once: q, o and m, l of Br rows, k and v of Bc rows, and a tile of scores."""
    return Br * (2 * d + 2) + 2 * Bc * d + Br * Bc


def tallest_tile(M, d, Bc):
    """The largest Br with flash_room(d, Br, Bc) <= M. Raises ValueError when not even one row fits."""
    Br = (M - 2 * Bc * d) // (2 * d + 2 + Bc)
    if Br < 1:
        raise ValueError(f"M = {M} is too small: one query beside Bc = {Bc} keys and values of d = {d} needs {flash_room(d, 1, Bc)}")
    return Br


# Arithmetic on rows.

def write_scores(s, q_i, k_j, scale, causal, i, j):
    """s = q_i k_jᵀ / scale, and -inf where the key lies behind the query; the tile begins at row i, column j."""
    for r, q_row in enumerate(q_i):
        s[r][:] = [-inf if causal and j + c > i + r else sum(x * y for x, y in zip(q_row, k_row)) / scale for c, k_row in enumerate(k_j)]


def softmax(s):
    m = max(s)
    p = [exp(s_j - m) for s_j in s]
    l = sum(p)
    return [p_j / l for p_j in p]


def add_weighted(o, p, v_j):
    """o += p v_j for one row."""
    for weight, v_row in zip(p, v_j):
        for c, x in enumerate(v_row):
            o[c] += weight * x


# The check.

def exact_attention(q, k, v, causal=False):
    """The definition, a whole row of scores at once and every sum by fsum: no tile, no running value."""
    o = []
    for i, q_i in enumerate(q):
        s = [fsum(x * y for x, y in zip(q_i, k_j)) / sqrt(len(q_i)) for k_j in (k[: i + 1] if causal else k)]
        largest = max(s)
        w = [exp(s_j - largest) for s_j in s]
        o.append([fsum(w_j * v_j[c] for w_j, v_j in zip(w, v)) / fsum(w) for c in range(len(v[0]))])
    return o


def random_head(S, d, seed=0):
    """q, k, v [S, d] of one head, normal numbers, the same for the same seed."""
    draw = Random(seed).gauss
    return tuple([[draw(0, 1) for _ in range(d)] for _ in range(S)] for _ in range(3))


def largest_error(a, b):
    return max(abs(x - y) for row_a, row_b in zip(a, b, strict=True) for x, y in zip(row_a, row_b, strict=True))


def check(attention=flash_attention):
    """Raise AssertionError unless attention(chip, q, k, v, Br, Bc, causal) is exact, moves what the formula says and fits.

    Half of the cases have scores so large that e^s is no float without the running maximum.
    """
    for S, d, Br, Bc in ((1, 1, 1, 1), (12, 3, 4, 2), (13, 3, 5, 4), (7, 4, 9, 20), (24, 2, 6, 6)):
        for causal in (False, True):
            for stretch in (1, 400):
                q, k, v = random_head(S, d, seed=S)
                q = [[stretch * x for x in row] for row in q]
                case = f"S = {S}, d = {d}, Br = {Br}, Bc = {Bc}, causal = {causal}, scores x {stretch}"
                chip = Chip(flash_room(d, Br, Bc))
                try:
                    o = attention(chip, q, k, v, Br, Bc, causal)
                    off = largest_error(o, exact_attention(q, k, v, causal))
                except Exception as problem:
                    raise AssertionError(f"{case}: {problem!r}") from problem
                if not off < 1e-11:
                    raise AssertionError(f"{case}: off by {off:.1e}")
                counted, formula = (chip.loads, chip.stores), flash_traffic(S, d, Br, Bc, causal)
                if not counted == formula:
                    raise AssertionError(f"{case}: {counted} loads and stores, the formula says {formula}")
                if not chip.held == 0:
                    raise AssertionError(f"{case}: {chip.held} numbers were never freed")


# The tables.

def one_machine(S, d, Br, Bc, M, causal=False):
    """Both algorithms on one machine, as lines of text. Raises ValueError when flash does not fit."""
    q, k, v = random_head(S, d)
    exact = exact_attention(q, k, v, causal)
    out = [
        f"One head, S = {S}, d = {d}{', causal' if causal else ''}; tiles of {Br} x {Bc}, fast memory of {M} numbers",
        "                           loads    stores     total   on chip",
    ]
    runs = [
        ("algorithm 0", lambda chip: algorithm_0(chip, q, k, v, Br, Bc, causal), algorithm_0_traffic(S, d, Br)),
        ("  division apart", lambda chip: algorithm_0(chip, q, k, v, Br, Bc, causal, divide=True), algorithm_0_traffic(S, d, Br, divide=True)),
        ("flash", lambda chip: flash_attention(chip, q, k, v, Br, Bc, causal), flash_traffic(S, d, Br, Bc, causal)),
    ]
    for name, attention, formula in runs:
        chip = Chip(M)
        try:
            o = attention(chip)
        except ValueError as problem:
            if name == "flash":
                raise ValueError(f"{problem}; tiles of {Br} x {Bc} with d = {d} take {flash_room(d, min(Br, S), min(Bc, S))}. "
                                 "Take smaller tiles or a larger M.") from None
            out.append(f"{name:20}  does not fit: {chip.held} numbers at once")
            continue
        if not (largest_error(o, exact) < 1e-12 and (chip.loads, chip.stores) == formula):
            raise AssertionError(f"{name} is wrong")
        out.append(f"{name:20}  {chip.loads:10,}{chip.stores:10,}{chip.loads + chip.stores:10,}{chip.peak:10,}")
    out.append(f"{'at least':20}  {3 * S * d:10,}{S * d:10,}{4 * S * d:10,}")
    return out


def larger_and_larger(S=2048, d=32, Bc=8):
    """What flash moves as the fast memory grows and its Q tile with it, as lines of text."""
    out = [
        f"Flash, S = {S}, d = {d}, Bc = {Bc}: the tallest Q tile that fits into M",
        "      M     Br    loads + stores   x M / (S^2 d^2)",
    ]
    q = [[0.0] * d] * S
    constants = []
    M = 2048
    while M <= S * d:                                                  # beyond, all of q fits: nothing is left to gain
        Br = tallest_tile(M, d, Bc)
        chip = Chip(M)
        flash_attention(chip, q, q, q, Br, Bc, numbers=False)
        moved = chip.loads + chip.stores
        constants.append(moved * M / (S * d) ** 2)
        out.append(f"{M:7}  {Br:5}  {moved:16,}  {constants[-1]:16.2f}")
        M *= 2
    return out + [
        f"at least        {4 * S * d:16,}",
        f"M grew {2 ** (len(constants) - 1)} times, the last column stayed between {min(constants):.2f} and {max(constants):.2f}",
    ]


def kernel_tile(S=4096, d=128, heads=28, e=2):
    """The tile of PyTorch's flash kernel: what all heads load and store, in bytes, as lines of text."""
    room = flash_room(d, **KERNEL)
    out = [
        f"The tile of PyTorch's flash kernel, {KERNEL['Br']} x {KERNEL['Bc']}: {room:,} numbers on chip",
        f"S = {S}, d = {d}, {heads} heads, {e} bytes a number",
        "                 loads GB  stores GB   x floor",
    ]
    q = [[0.0] * d] * S
    for causal in (False, True):
        chip = Chip(room)
        flash_attention(chip, q, q, q, **KERNEL, causal=causal, numbers=False)
        if not (chip.loads, chip.stores) == flash_traffic(S, d, **KERNEL, causal=causal):
            raise AssertionError
        loads, stores = heads * e * chip.loads, heads * e * chip.stores
        name = "causal" if causal else "not causal"
        out.append(f"{name:15}{loads / 1e9:10.3f}{stores / 1e9:11.3f}{(loads + stores) / (4 * heads * S * d * e):10.1f}")
    return out


def main(argv=None):
    """Command line. Exit status 2 and one line on stderr when the tiles do not fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, meaning in (("S", "sequence length"), ("d", "head dimension"), ("Br", "rows of a Q tile"), ("Bc", "rows of a KV tile"), ("M", "fast memory, in numbers")):
        parser.add_argument(f"--{name}", type=int, help=meaning)
    parser.add_argument("--causal", action="store_true", help="query i sees the keys up to i")
    options = vars(parser.parse_args(argv))
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    wrong = [f"--{name} is {value}" for name, value in given.items() if value < 1]
    if wrong:
        return stop(f"{wrong[0]}: at least 1 is needed")
    machine = {"S": 64, "d": 8, "Br": 16, "Bc": 8, "M": 640, **given}
    try:
        print("\n".join(one_machine(**machine)))
    except ValueError as problem:
        return stop(str(problem))
    if not given:
        check()
        print("\n" + "\n".join(larger_and_larger() + [""] + kernel_tile()))
        print("\ncheck: exact attention, each count equal to its formula, nothing above M")
    return 0


def stop(why):
    print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
