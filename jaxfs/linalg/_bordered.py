"""The eigen-system of a symmetric matrix after one row and column are added.

In the eigenbasis of the matrix, the extended matrix is an arrowhead matrix: a diagonal d with one
more row and column (q, c). Its eigenvalues are the zeros of the secular function (eq. 21 of
the GC / GKL paper)

    f(λ) = λ − c + Σ_i q_i² / (d_i − λ).

There is one zero between any two neighbouring poles d_i, one below all poles and one above. The
code computes each zero as an offset from the nearest pole, so that the distance of the zero to
*every* pole has full relative accuracy. These distances determine a unique arrowhead matrix that
has exactly these eigenvalues. The eigenvectors of that matrix are orthogonal to rounding even if
eigenvalues cluster (M. Gu, S. Eisenstat, SIAM J. Matrix Anal. Appl. 16, 1995). The GC / GKL paper
normalises q_i/(λ − d_i) directly, and loses orthogonality where eigenvalues are close.

Deflation needs no branches: equal poles are separated, and zero q_i are made nonzero, by eps/n
times the norm of the matrix. The distances between poles include this shift exactly, so the shift
is a backward error below rounding.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, matmul, safe_divide
from jaxfs._types import ArrayLike

#: Maximum number of steps of the search for the eigenvalues. About ten are needed.
_MAX_STEPS = 100


def eigh_bordered(
    eigenvalues: ArrayLike, eigenvectors: ArrayLike, v: ArrayLike, c: ArrayLike
) -> tuple[Float[Array, "m"], Float[Array, "m m"]]:
    """Eigenvalues and eigenvectors of [[A, v], [vᵀ, c]] from the eigen-decomposition of A.

    **Arguments**

    - `eigenvalues`: `(n,)`, ascending, of a symmetric matrix A.
    - `eigenvectors`: `(n, n)`, the eigenvectors of A in columns.
    - `v`: `(n,)`, and `c`: a number. The extended matrix need not be definite.

    **Returns** eigenvalues `(n + 1,)`, ascending, and eigenvectors `(n + 1, n + 1)`.

    **Numerics** stable for zero entries of `v` and for repeated eigenvalues. The error relative to
    the norm of the matrix, and the loss of orthogonality, grow by about one eps with each row and
    column added. A NaN in the input makes the result NaN. Derivatives are stopped, as in `eigh`.

    **Cost** one product of n×n matrices, and about ten passes over n² numbers for the eigenvalues.

    **Reference** section 4.1 of Lefakis & Fleuret, *Jointly Informative Feature Selection Made
    Tractable by Gaussian Modeling*, JMLR 17, 2016, for c = 1 and well separated eigenvalues;
    `_bordered.py` describes the differences.

    >>> import jax.numpy as jnp
    >>> w, _ = eigh_bordered(jnp.ones(1), jnp.eye(1), jnp.array([2.0]), 1.0)
    >>> w.round(4).tolist()
    [-1.0, 3.0]
    """
    w = _checks.real(eigenvalues, "eigenvalues", ndim=1)
    u = _checks.square(eigenvectors, "eigenvectors")
    v, c = _checks.real(v, "v", ndim=1), _checks.number(c, "c", scalar=True)
    n = w.shape[0]
    if u.shape != (n, n) or v.shape != (n,):
        expected = f"of shapes ({n}, {n}) and ({n},) for {n} eigenvalues"
        raise _checks.fail("eigenvectors and v", expected, f"{u.shape} and {v.shape}")
    for other, name in ((u, "eigenvectors"), (v, "v")):
        _checks.alike(w, other, f"eigenvalues and {name}", axes=slice(0))
    return _eigh_bordered(*lax.stop_gradient((w, u, v, jnp.asarray(c, w.dtype))))


@jax.jit
def _eigh_bordered(w, u, v, c):
    new, arrow = arrowhead(w, matmul(v[None], u)[0], c)
    vectors = jnp.concat([matmul(u, arrow[:-1]), arrow[-1:]])
    fine = jnp.isfinite(c)
    for a in (w, u, v):
        fine = fine & jnp.all(jnp.isfinite(a))
    return jnp.where(fine, new, jnp.nan), jnp.where(fine, vectors, jnp.nan)


class _Poles(NamedTuple):
    """Distances of all poles from the pole nearest to each root.

    The outermost two poles have weight 0. The last axis runs over the roots. Sums over poles are
    then sums of rows, which XLA vectorises.
    """

    distance: Float[Array, "k m"]  # from the nearest pole of each root to every pole
    weight: Float[Array, "k"]  # q²
    own: Float[Array, "m"]  # the pole from which the root is measured
    on_left: Bool[Array, "k m"]  # poles below the root


def arrowhead(
    d: Float[Array, "n"], q: Float[Array, "n"], c: Float[Array, ""]
) -> tuple[Float[Array, "m"], Float[Array, "m m"]]:
    """Eigenvalues, ascending, and eigenvectors of [[diag d, q], [qᵀ, c]], d ascending."""
    size = jnp.max(jnp.abs(jnp.concat([d, q, c[None]])))
    # Scaling by a power of two is exact: equal poles stay equal even if XLA fuses operations.
    scale = jnp.ldexp(jnp.ones_like(size), -jnp.frexp(jnp.where(size > 0, size, 1))[1])
    w, v = _unit_arrowhead(d * scale, q * scale, c * scale)
    return w / scale, v


def _unit_arrowhead(d, q, c):
    n = d.shape[0]
    tiny = 2.0 ** math.floor(math.log2(eps(d.dtype) / n))  # multiples of a power of two are exact
    q = jnp.where(q < 0, jnp.minimum(q, -tiny), jnp.maximum(q, tiny))
    apart = tiny * jnp.arange(n, dtype=d.dtype)
    reach = jnp.linalg.norm(q) + 1
    ends = jnp.minimum(d[0], c) - reach, jnp.maximum(d[-1], c) + reach
    # Poles are stored in two parts, d_i and i·tiny, so that their differences keep the shift.
    pole = jnp.concat([ends[0][None], d, ends[1][None]])
    shift = jnp.pad(apart, 1)
    weight = jnp.pad(q * q, 1)
    gap = (pole[1:] - pole[:-1]) + (shift[1:] - shift[:-1])

    index = jnp.arange(n + 1)
    on_left = jnp.arange(n + 2)[:, None] <= index[None, :]

    def poles(origin: Int[Array, "m"]) -> _Poles:
        own, moved = pole[origin], shift[origin]
        distance = (pole[:, None] - own[None]) + (shift[:, None] - moved[None])
        return _Poles(distance, weight, own + moved, on_left)

    left = poles(index)
    above = _secular(left, 0.5 * gap, c)[0] < 0  # the root is nearer to the right pole
    # The outermost poles have weight 0 and are artificial: measure from the poles d_i only.
    own = poles(jnp.clip(jnp.where(above, index + 1, index), 1, n))
    root = _solve(own, gap, above, c)

    # away[i, j] = λ_j − d_i, with full relative accuracy.
    away = root[None] - own.distance[1:-1]
    q = jnp.where(q < 0, -1.0, 1.0) * _consistent(away, d, apart)
    v = jnp.concat([q[:, None] / away, jnp.ones((1, n + 1), d.dtype)])
    v = v / jnp.linalg.norm(v, axis=0)[None]
    return own.own + root, v


def _secular(p: _Poles, root, c):
    """f, the slopes of its sums over left and right poles, and the sum of its absolute terms."""
    inverse = safe_divide(jnp.ones_like(p.distance), p.distance - root[None])
    term = p.weight[:, None] * inverse
    slope = term * inverse
    base = root + (p.own - c)
    value = base + jnp.sum(term, axis=0)
    slope_left = jnp.sum(jnp.where(p.on_left, slope, 0), axis=0)
    slope_right = jnp.sum(jnp.where(p.on_left, 0, slope), axis=0)
    return value, slope_left, slope_right, jnp.abs(base) + jnp.sum(jnp.abs(term), axis=0)


def _solve(p: _Poles, gap, above, c):
    """All roots at once, by bracketed rational interpolation at the two neighbouring poles.

    Each step replaces f by r + s/(a − λ) + t/(b − λ) with the same value and slopes. The zero of
    this function solves a quadratic equation. If the zero is outside the bracket, the step takes
    the middle of the bracket on a logarithmic scale instead, because the distance to a pole of
    small weight can be far below rounding. The first guess uses the weights of the two poles.
    """
    to_left, to_right = jnp.diagonal(p.distance), jnp.diagonal(p.distance, offset=-1)
    middle = to_left + 0.5 * gap
    low, high = jnp.where(above, middle, to_left), jnp.where(above, to_right, middle)

    def step(state):
        root, low, high, count, _ = state
        value, slope_left, slope_right, size = _secular(p, root, c)
        low = jnp.where(value < 0, root, low)
        high = jnp.where(value > 0, root, high)
        a, b = to_left - root, to_right - root
        slope_left = slope_left + 1  # the linear term of f
        linear = (a + b) * value - a * b * (slope_left + slope_right)
        constant = a * b * value
        square = value - a * slope_left - b * slope_right
        new = _zero_between(low, high, root, square, linear, constant)
        done = jnp.abs(value) <= eps(root.dtype) * size
        new = jnp.where(done, root, new)
        settled = done | (jnp.abs(new - root) <= eps(root.dtype) * jnp.abs(root))
        return new, low, high, count + 1, jnp.all(settled)

    def unfinished(state):
        return ~state[4] & (state[3] < _MAX_STEPS)

    # First guess: f at the middle of the interval and the weights of both poles determine r.
    at_left, at_right = p.weight[:-1], p.weight[1:]
    rest = _secular(p, middle, c)[0] - (at_right - at_left) / (0.5 * gap)
    linear = rest * (to_left + to_right) + at_left + at_right
    constant = rest * to_left * to_right + at_left * to_right + at_right * to_left
    guess = _zero_between(low, high, 0, rest, linear, constant)
    start = (guess, low, high, 0, jnp.asarray(False))
    return lax.while_loop(unfinished, step, start)[0]


def _zero_between(low, high, origin, square, linear, constant):
    """origin + η between low and high, where square η² − linear η + constant = 0.

    If there is none, the result is the geometric mean of low and high, which are distances to a
    pole; if one of them is 0, 1e-3 times the other.
    """
    geometric = jnp.sign(high) * jnp.sqrt(jnp.abs(low)) * jnp.sqrt(jnp.abs(high))
    found = jnp.where((low == 0) | (high == 0), 1e-3 * (low + high), geometric)
    radical = jnp.sqrt(jnp.maximum(linear**2 - 4 * square * constant, 0))
    larger = linear + jnp.where(linear < 0, -radical, radical)
    for eta in (safe_divide(larger, 2 * square), safe_divide(2 * constant, larger)):
        zero = origin + eta
        found = jnp.where((zero > low) & (zero < high), zero, found)
    return found


def _consistent(away: Float[Array, "n m"], d, apart) -> Float[Array, "n"]:
    """|q_i| of the arrowhead matrix whose eigenvalues are exactly the computed roots.

    q_i² = Π_j |λ_j − d_i| / Π_{k≠i} |d_k − d_i|. The factor of d_k is paired with the factor of λ_k
    if d_k is below d_i, and with the factor of λ_{k+1} if d_k is above. The factors of λ_i and
    λ_{i+1}, the roots next to d_i, have no partner.
    """
    n = d.shape[0]
    between = (d[None, :] - d[:, None]) + (apart[None, :] - apart[:, None])  # d_k − d_i
    i, k = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
    paired = jnp.where(k < i, away[:, :-1], away[:, 1:])
    ratio = jnp.where(k == i, 1, paired / jnp.where(k == i, 1, between))
    around = jnp.diagonal(away) * jnp.diagonal(away, offset=1)
    return jnp.sqrt(jnp.abs(around) * jnp.abs(jnp.prod(ratio, axis=1)))
