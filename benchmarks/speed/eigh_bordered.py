"""The bordered eigen-update against a new eigendecomposition, and its errors after 1000 updates.

    JAXFS_DATA=… python -m benchmarks.speed.eigh_bordered [LAST SIZE]

Claims: at n = 1000 the update is at least twice as fast as `scipy.linalg.eigh` (float64, one run,
best of five). When rows are inserted one at a time from 1 to 1000, the errors of the eigenvalues
relative to ‖A‖₂ and the loss of orthogonality stay below 1e-11. This is tested on a random matrix,
the (singular) covariance of MNIST's pixels, a matrix of uncoupled blocks, and a matrix with a few
eigenvalues repeated many times. Matrices are padded to the next hundred with uncoupled eigenvalues
and cropped again, so that ten programs are compiled instead of a thousand.
"""

import sys

import jax
import numpy as np
import scipy.linalg

from benchmarks import data
from benchmarks.timing import best, finish, verdict
from jaxfs.linalg import eigh_bordered


def matrices(n: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    a = generator.normal(size=(n, n))
    basis = np.linalg.qr(a)[0]
    x, _ = data.mnist()
    pixels = np.resize(generator.permutation(784), n)  # above 784, pixels repeat
    blocks = scipy.linalg.block_diag(*[np.ones((4, 4)) * (1 + i % 3) for i in range(-(-n // 4))])
    return {
        "random": (a + a.T) / 2,
        "MNIST": np.cov(x[:5000, pixels].T / 255),
        "blocks": blocks[:n, :n],
        "repeated": basis @ np.diag(np.resize([1.0, 2.0, 3.0], n)) @ basis.T,
    }


def insert(w, v, edge, corner, far: float):
    """The eigendecomposition with one more row and column, computed at a multiple of 100."""
    n = len(w)
    spare = 99 - n % 100
    w = np.concatenate([w, far * np.linspace(1, 2, spare)])
    v = scipy.linalg.block_diag(v, np.eye(spare))
    new, vectors = eigh_bordered(w, v, np.append(edge, np.zeros(spare)), corner)
    rows = [*range(n), n + spare]
    return np.asarray(new)[: n + 1], np.asarray(vectors)[rows][:, : n + 1]


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    every = matrices(n)
    a = every["random"]
    w, v = map(jax.numpy.asarray, np.linalg.eigh(a[:-1, :-1]))
    edge, corner = map(jax.numpy.asarray, (a[:-1, -1], a[-1, -1]))
    ours, theirs = best(lambda: eigh_bordered(w, v, edge, corner), lambda: scipy.linalg.eigh(a))
    print(
        f"n = {n}: eigh {theirs * 1e3:.0f} ms, the update {ours * 1e3:.0f} ms: "
        f"{theirs / ours:.1f} times; 2 / that {verdict(2 * ours / theirs, 1.0)}",
        flush=True,
    )
    norms = {name: np.linalg.norm(a, 2) for name, a in every.items()}
    systems = {name: np.linalg.eigh(a[:1, :1]) for name, a in every.items()}
    for size in range(1, n):
        for name, a in every.items():
            edge, corner = a[:size, size], a[size, size]
            systems[name] = insert(*systems[name], edge, corner, 2 * norms[name])
        if size + 1 not in (10, 100, 300, n):
            continue
        for name, a in every.items():
            w, v = map(np.asarray, systems[name])
            truth = np.linalg.eigvalsh(a[: size + 1, : size + 1])
            wrong = np.max(np.abs(w - truth)) / np.max(np.abs(truth))
            turned = np.max(np.abs(v.T @ v - np.eye(size + 1)))
            print(
                f"{name:9s} 1 → {size + 1:4d}: values {wrong:.1e}, orthogonality {turned:.1e}; "
                f"of 1e-11 {verdict(max(wrong, turned) / 1e-11, 1.0)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
    finish()
