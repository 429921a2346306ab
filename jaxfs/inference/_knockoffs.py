"""Gaussian model-X knockoffs: copies of the features, drawn without the labels.

For X with mean μ and covariance Σ, and s with 0 ≤ diag(s) ≤ 2Σ, the rows of a knockoff copy are

    X̃ | X ~ N( X − (X − μ) Σ⁻¹ diag(s),  2 diag(s) − diag(s) Σ⁻¹ diag(s) ),

so that swapping any features with their copies leaves the mean and the covariance unchanged.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._numerics import eps, flat_draw, matmul, safe_divide, safe_sqrt, symmetrize
from jaxfs._types import ArrayLike
from jaxfs.linalg._lapack import cho_solve, cholesky, eigh

METHODS = ("mvr", "equicorrelated")
#: Maximum number of Newton steps and of step halvings in one step.
_STEPS, _HALVINGS = 60, 40


def knockoffs(
    key: Array,
    x: ArrayLike,
    *,
    covariance: ArrayLike | None = None,
    method: str = "mvr",
    num_copies: int = 1,
) -> Float[Array, "m n d"]:
    """Draw Gaussian knockoff copies of the samples.

    **Arguments**

    - `key`: a key of `jax.random`.
    - `x`: `(n, d)`, n ≥ 2.
    - `covariance`: `(d, d)`, positive definite, of the features. The default is the Ledoit–Wolf
      estimate on standardised features, which is positive definite also for d ≥ n.
    - `method`: static. `"mvr"` minimises tr (2Σ − diag s)⁻¹ + Σ_j 1/s_j, the sum over features and
      copies of 1 / variance given all the others: small if no feature can be predicted well.
      `"equicorrelated"` takes the largest s that is the same for all standardised features.
    - `num_copies`: static, the number of copies, independent given `x`.

    **Returns** `(num_copies, n, d)`.

    **Numerics** s is multiplied by 1 − 10⁻³ if it is equicorrelated, so that the conditional
    covariance stays positive definite. A covariance that is not positive definite raises an error;
    under `jit` it gives NaN. Constant features are copied unchanged.

    **Derivatives** none.

    **Cost** `"mvr"`: two Cholesky decompositions, an inverse and a product of size d in each of
    the 5 to 30 Newton steps; memory for six d × d arrays, and for the copies.

    **Reference** Candès, Fan, Janson and Lv, *Panning for gold*, JRSS B 80, 2018, section 3.1;
    Spector and Janson, *Powerful knockoffs via minimizing reconstructability*, Annals of Statistics
    50, 2022, definition 3 (MVR); Ledoit and Wolf, *A well-conditioned estimator for
    large-dimensional covariance matrices*, 2004.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (100, 3))
    >>> knockoffs(jax.random.key(1), x, num_copies=2).shape
    (2, 100, 3)
    """
    _checks.key(key)
    x, covariance = check_covariance(x, covariance)
    _checks.option(method, "method", METHODS)
    copies = _checks.integer(num_copies, "num_copies", low=1)
    return _draw(key, x, covariance, method, copies)


def check_covariance(x: ArrayLike, covariance: ArrayLike | None):
    """Return checked samples and covariance."""
    x = _checks.samples(x, n=2)
    if covariance is None:
        return x, None
    covariance = _checks.array(_checks.real(covariance, "covariance"), "covariance", x.dtype)
    if covariance.shape != (x.shape[1],) * 2:
        raise _checks.fail("covariance", f"({x.shape[1]}, {x.shape[1]})", f"{covariance.shape}")
    if not _checks.is_traced(covariance):
        least = float(eigh(symmetrize(covariance))[0][0])
        if not least > eps(x.dtype) * x.shape[1] * float(jnp.max(jnp.diag(covariance))):
            hint = "leave it out to use a shrinkage estimate"
            raise _checks.fail("covariance", "positive definite", f"eigenvalue {least:.3g}; {hint}")
    return x, covariance


def sampler(x: Float[Array, "n d"], covariance: Float[Array, "d d"] | None, method: str):
    """Return a function of a key that draws one copy of `x`."""
    mean = jnp.mean(x, axis=0)
    centre = x - mean[None]
    if covariance is None:
        scale = jnp.sqrt(jnp.mean(jnp.square(centre), axis=0))
        z = safe_divide(centre, jnp.broadcast_to(scale[None], x.shape))
        correlation = ledoit_wolf(z)
    else:
        scale = jnp.sqrt(jnp.diag(covariance))
        z = centre / scale[None]
        correlation = symmetrize(covariance) / (scale[:, None] * scale[None])
    s = (mvr if method == "mvr" else equicorrelated)(correlation)
    solved = cho_solve(cholesky(correlation), jnp.diag(s))  # Σ⁻¹ diag(s)
    expected = z - matmul(z, solved)
    spread = symmetrize(2 * jnp.diag(s) - s[:, None] * solved)
    jitter = 8 * eps(z.dtype) * jnp.max(s) * jnp.eye(s.shape[0], dtype=z.dtype)
    root = cholesky(spread + jitter)

    def draw(key) -> Float[Array, "n d"]:
        noise = flat_draw(jax.random.normal, key, z.shape, z.dtype)
        return mean[None] + scale[None] * (expected + matmul(noise, root.T))

    return draw


@functools.partial(jax.jit, static_argnums=(3, 4))
def _draw(key, x, covariance, method: str, copies: int):
    draw = sampler(x, covariance, method)
    return lax.map(lambda i: draw(jax.random.fold_in(key, i)), jnp.arange(copies))


# ---- Covariance ---------------------------------------------------------------------------------


def ledoit_wolf(z: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """Shrunken covariance of centred samples, scaled to a unit diagonal.

    (1 − ρ) S + ρ μ I with μ = tr S / d and ρ = min(1, β / δ), where β is the mean squared error of
    S and δ its squared distance from μ I.
    """
    n, d = z.shape
    s = matmul(z.T, z) / n
    mu = jnp.trace(s) / d
    delta = (jnp.sum(jnp.square(s)) - d * mu**2) / d
    fourth = matmul(jnp.square(z).T, jnp.square(z)) / n
    beta = (jnp.sum(fourth) - jnp.sum(jnp.square(s))) / (d * n)
    rho = jnp.clip(safe_divide(jnp.minimum(beta, delta), delta), 0, 1)
    shrunk = (1 - rho) * s + rho * mu * jnp.eye(d, dtype=z.dtype)
    # A few eps keep the matrix of full rank if nothing is shrunk or features are constant.
    size = jnp.diag(shrunk) + 10 * d * eps(z.dtype)
    shrunk = shrunk + jnp.diag(size - jnp.diag(shrunk))
    root = safe_sqrt(size)
    return shrunk / (root[:, None] * root[None])


# ---- The diagonal s -----------------------------------------------------------------------------


def equicorrelated(correlation: Float[Array, "d d"]) -> Float[Array, "d"]:
    """s_j = min(1, 2 λ_min) for all features, times 1 − 10⁻³ (Candès et al. 2018, eq. 3.4)."""
    least = eigh(correlation)[0][0]
    s = jnp.where(least > 0, jnp.minimum(1, 2 * least), jnp.nan) * (1 - 1e-3)
    return jnp.broadcast_to(s, correlation.shape[:1])


def mvr(correlation: Float[Array, "d d"]) -> Float[Array, "d"]:
    """The s that minimises tr A + Σ_j 1/s_j, A = (2Σ − diag s)⁻¹, by Newton's method in log s.

    The problem is convex in s. It is also convex in log s, because tr A increases with s, and
    Σ 1/s_j is convex in log s. The gradient in s is diag(A²) − 1/s², and the Hessian
    2 A∘A² + 2 diag(1/s³). The objective is infinite at the boundary, so that halved steps stay
    inside. Spector and Janson descend along one coordinate at a time, which has the same limit.
    """
    d = correlation.shape[0]
    eye = jnp.eye(d, dtype=correlation.dtype)

    def inverse(u):
        return cho_solve(cholesky(2 * correlation - jnp.diag(jnp.exp(u))), eye)

    def value(a, u):
        total = jnp.trace(a) + jnp.sum(jnp.exp(-u))
        return jnp.where(jnp.isnan(total), jnp.inf, total)

    def step(state):
        u, a, now, count, _ = state
        s = jnp.exp(u)
        square = matmul(a, a)
        gradient = s * jnp.diag(square) - 1 / s
        hessian = 2 * s[:, None] * (a * square) * s[None]
        hessian += jnp.diag(s * jnp.diag(square) + 1 / s)
        direction = -cho_solve(cholesky(symmetrize(hessian)), gradient[:, None])[:, 0]
        slope = jnp.sum(gradient * direction)

        def shorter(trial):
            length, *_, halvings = trial
            moved = u + length / 2 * direction
            shorter_a = inverse(moved)
            return length / 2, shorter_a, value(shorter_a, moved), halvings + 1

        def too_long(trial):
            length, _, reached, halvings = trial
            return ~(reached <= now + 1e-4 * length * slope) & (halvings < _HALVINGS)

        # The first pass halves a step of length 2.
        start = (jnp.asarray(2, u.dtype), a, jnp.full_like(now, jnp.inf), jnp.int32(-1))
        length, new, reached, halvings = lax.while_loop(too_long, shorter, start)
        better = reached < now
        u, a = jnp.where(better, u + length * direction, u), jnp.where(better, new, a)
        done = ~better | (-slope <= 1e-6 * now) | (halvings >= _HALVINGS)
        return u, a, jnp.minimum(reached, now), count + 1, done

    least = eigh(correlation)[0][0]
    u = jnp.broadcast_to(jnp.log(jnp.where(least > 0, jnp.minimum(least, 1), jnp.nan)), (d,))
    a = inverse(u)
    state = (u, a, value(a, u), jnp.int32(0), jnp.isnan(least))
    u, *_ = lax.while_loop(lambda s: ~s[-1] & (s[-2] < _STEPS), step, state)
    return jnp.exp(u)
