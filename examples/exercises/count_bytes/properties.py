"""Properties of count_bytes."""
import math

from grader import NAME, Wrong, cut, written

ARGUMENTS = ("B", "H", "H_kv", "S_q", "S_kv", "d", "e")


def one_head(solve, random):
    for S in (1, 2, 3, 8):
        solve.expect(*case(S_q=S, S_kv=S, d=random.choice([1, 2, 8]), e=random.choice([2, 4])))


def batch_and_heads(solve, random):
    for _ in range(3):
        H = random.randint(2, 5)
        solve.expect(*case(B=random.randint(2, 5), H=H, H_kv=H, S_q=4, S_kv=4, d=2))


def all_sizes_differ(solve, random):
    """No two sizes alike, so that none stands for another."""
    for _ in range(3):
        B, H_kv, G, S_q, S_kv, d = random.sample([2, 3, 5, 7, 11, 13, 17], 6)
        solve.expect(*case(B=B, H=H_kv * G, H_kv=H_kv, S_q=S_q, S_kv=S_kv, d=d, e=random.choice([1, 2, 8])))


def fewer_kv_heads(solve, random):
    for H, H_kv in ((2, 1), (6, 2), (28, 4)):
        solve.expect(*case(B=random.randint(1, 3), H=H, H_kv=H_kv, S_q=5, S_kv=5, d=4))


def decode(solve, random):
    for S in (7, 100):
        solve.expect(*case(B=2, H=4, H_kv=2, S_q=1, S_kv=S + random.randint(0, 9), d=8))


def more_queries_than_keys(solve, random):
    solve.expect(*case(B=2, H=3, H_kv=3, S_q=9 + random.randint(0, 9), S_kv=2, d=4))


def bytes_per_element(solve, random):
    for e in (1, 2, 3, 4, 8, 16):
        solve.expect(*case(S_q=3, S_kv=random.randint(4, 9), d=2, e=e))


def a_real_layer(solve, random):
    for S in random.sample([1024, 2048, 4096, 8192, 16384, 32768], 3):
        solve.expect(*case(H=28, H_kv=4, S_q=S, S_kv=S, d=128, e=2))


def exact_beyond_floats(solve, random):
    for digits in (8, 9, 20):                                                   # more than 53 bits, than 64, than 28 decimal digits
        S = 10**digits + 2 * random.randint(1, 10**6) + 1
        args, expected = case(B=3, H=7, H_kv=7, S_q=S, S_kv=S, d=127, e=1)
        given, got = f"{NAME}({written(args)})", None
        try:
            got = solve(*args)
        except BaseException as error:
            raise Wrong(given, repr(expected), solve.explain(error)) from None
        if not isinstance(got, (tuple, list)) or list(got) != list(expected) or not all(type(x) is int for x in got):
            raise Wrong(given, repr(expected), cut(repr(got)))


PROPERTIES = (one_head, batch_and_heads, all_sizes_differ, fewer_kv_heads, decode, more_queries_than_keys, bytes_per_element, a_real_layer, exact_beyond_floats)


def case(B=1, H=1, H_kv=1, S_q=1, S_kv=1, d=1, e=2):
    """(arguments, expected), counted tensor by tensor."""
    held = {"q": (B, H, S_q, d, e), "k": (B, H_kv, S_kv, d, e), "v": (B, H_kv, S_kv, d, e), "o": (B, H, S_q, d, e)}
    naive = {**held, "s": (B, H, S_q, S_kv, e), "p": (B, H, S_q, S_kv, e)}
    return (B, H, H_kv, S_q, S_kv, d, e), (sum(map(math.prod, naive.values())), sum(map(math.prod, {**held, "lse": (B, H, S_q, 4)}.values())))


def call(function, args):
    return function(**dict(zip(("B", "H", "H_kv", "S_q", "S_kv", "d", "e"), args)))
