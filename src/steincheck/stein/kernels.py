"""Radial kernels k(x, y) = phi(r2), r2 = |x - y|^2, their Stein kernels, and how wide to make them."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from .._validation import RandomSource, as_numbers, as_one_positive, is_number, seeded, shown

MAX_MEDIAN_PAIRS = 500_000  # of draws, for the median; its standard error is then below 0.2 % of a quantile


class Kernel(Protocol):
    """What a test takes as `kernel`: IMQ, RBF or any radial kernel k(x, y) = phi(r2) with `profile`.

    A kernel takes bandwidths, in units of squared distance, if it is a dataclass with a field `bandwidth`, or
    has a method ``with_bandwidth(bandwidth)`` that returns the same kernel with this one. The bandwidth is
    then traced by JAX. A test chooses it from the draws where the kernel's `bandwidth` is None or absent;
    otherwise the kernel's own is used. Tests that aggregate bandwidths need a kernel that takes them; other
    tests use a kernel that takes none as it is. Kernels are hashable, as frozen dataclasses are, and are not
    to be changed once they have been used.

    Parameters
    ----------
    r2 : array
        Squared distances |x - y|^2; `profile` returns phi, phi' and phi'' there.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> class Cauchy:
    ...     def __init__(self, bandwidth=None):
    ...         self.bandwidth = bandwidth
    ...     def with_bandwidth(self, bandwidth):
    ...         return Cauchy(bandwidth)
    ...     def profile(self, r2):
    ...         q = 1 / (1 + r2 / self.bandwidth)
    ...         return q, -(q**2) / self.bandwidth, 2 * q**3 / self.bandwidth**2
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=1)
    >>> draws = np.random.default_rng(0).normal(size=(100, 1))
    >>> sc.ksd_test(draws, target, kernel=Cauchy(4.0), rng=0).bandwidth
    4.0
    """

    def profile(self, r2: Any) -> tuple[Any, Any, Any]:
        """phi, phi', phi'' at squared distances `r2`."""


@dataclass(frozen=True)
class IMQ:
    """Inverse multi-quadric kernel, phi = (1 + r2/bandwidth)^beta.

    Parameters
    ----------
    bandwidth : float, optional
        lambda, in units of squared distance; by default the median squared distance of the draws.
    beta : float
        Exponent, in (-1, 0).

    Examples
    --------
    >>> phi, first, second = IMQ(1.0).profile(3.0)
    >>> float(phi)
    0.5
    """

    bandwidth: float | None = None
    beta: float = -0.5

    def __post_init__(self) -> None:
        _check_bandwidth(self.bandwidth)
        if not is_number(self.beta) or not -1 < self.beta < 0:
            raise ValueError(f"`beta` must lie in (-1, 0), got {shown(self.beta)}")

    def profile(self, r2: Any) -> tuple[Any, Any, Any]:
        """phi, phi', phi'' at squared distances `r2`."""
        c = _inverse(self.bandwidth)
        b = self.beta
        q = 1 + c * r2
        if b == -0.5:
            phi = _inverse_square_root(jnp.asarray(q))
            inverse = phi * phi
        else:
            phi = q**b
            inverse = 1 / q
        first = b * c * phi * inverse
        return phi, first, (b - 1) * c * first * inverse


@dataclass(frozen=True)
class RBF:
    """Gaussian kernel, phi = exp(-r2/bandwidth).

    Parameters
    ----------
    bandwidth : float, optional
        lambda, in units of squared distance; by default the median squared distance of the draws.

    Examples
    --------
    >>> phi, first, second = RBF(1.0).profile(0.0)
    >>> float(phi), float(first)
    (1.0, -1.0)
    """

    bandwidth: float | None = None

    def __post_init__(self) -> None:
        _check_bandwidth(self.bandwidth)

    def profile(self, r2: Any) -> tuple[Any, Any, Any]:
        """phi, phi', phi'' at squared distances `r2`."""
        c = _inverse(self.bandwidth)
        phi = jnp.exp(-c * r2)
        return phi, -c * phi, c * c * phi


def _inverse_square_root(q: Any) -> Any:
    """q^(-1/2) to float64 accuracy: float32 start and two Newton steps, half the time of sqrt and divide.

    Beyond the range of float32 (q > 3e38) it is 0.
    """
    if q.dtype == jnp.float32:
        return lax.rsqrt(q)
    y = lax.rsqrt(q.astype(jnp.float32)).astype(q.dtype)
    half = 0.5 * q
    y = y * (1.5 - half * y * y)
    return y * (1.5 - half * y * y)


def stein_kernel_of_columns(kernel: Kernel, x: Any, sx: Any, y: Any, sy: Any) -> Any:
    """u(x_i, y_j) for the rows of x (n, d) and the columns of y (d, m) with scores sx, sy: (n, m) of JAX.

    u(x, y) = phi s(x).s(y) - 2 phi' (s(x) - s(y)).(x - y) - 2 d phi' - 4 r2 phi''. In few dimensions columns
    are a third faster than rows of y.
    """
    d = x.shape[1]
    if d > 8:  # up to 8, differences are formed coordinate by coordinate
        r2 = jnp.maximum(jnp.sum(x * x, 1)[:, None] + jnp.sum(y * y, 0) - 2 * (x @ y), 0.0)
        cross = jnp.sum(x * sx, 1)[:, None] + jnp.sum(y * sy, 0) - x @ sy - sx @ y
        inner = sx @ sy
    else:
        r2 = cross = inner = jnp.zeros((), dtype=x.dtype)
        for k in range(d):
            dx = x[:, k, None] - y[k]
            r2 = r2 + dx * dx
            cross = cross + dx * (sx[:, k, None] - sy[k])
            inner = inner + sx[:, k, None] * sy[k]
    phi, first, second = kernel.profile(r2)
    return phi * inner - 2 * first * (cross + d) - 4 * r2 * second


def takes_bandwidth(kernel: Any) -> bool:
    """Whether `kernel` can be given a bandwidth: by its field of this name, or by its own method."""
    return _has_field(kernel) or callable(getattr(kernel, "with_bandwidth", None))


def with_bandwidth(kernel: Any, bandwidth: Any) -> Any:
    """The kernel with this bandwidth; as it is if it takes none."""
    if _has_field(kernel):
        return replace(kernel, bandwidth=bandwidth)
    return kernel.with_bandwidth(bandwidth) if takes_bandwidth(kernel) else kernel


def without_bandwidth(kernel: Any) -> Any:
    """The static part of a kernel: a bandwidth it takes is traced."""
    return replace(kernel, bandwidth=None) if _has_field(kernel) else kernel


def _has_field(kernel: Any) -> bool:
    return is_dataclass(kernel) and any(f.name == "bandwidth" and f.init for f in fields(kernel))


def check_kernel(kernel: Any, *, aggregated: bool = False) -> None:
    """Raise unless `kernel` is an object with a profile, and its bandwidth one that can be used.

    An `aggregated` test uses it with each of several bandwidths: it must have none of its own.
    """
    if isinstance(kernel, type) or not callable(getattr(kernel, "profile", None)):
        raise TypeError(
            f"`kernel` must have a method profile(r2), as IMQ() and RBF() have, got {shown(kernel)}"
        )
    own = getattr(kernel, "bandwidth", None if aggregated else 1.0)
    if aggregated and own is not None:
        raise ValueError(
            f"`kernel` must have no bandwidth of its own, got {shown(own)}: it is used with each of "
            "`bandwidths`, where a single one may be given too"
        )
    if own is None and not takes_bandwidth(kernel):
        raise TypeError(
            "`kernel` is given a bandwidth, so it must be a dataclass with a field `bandwidth`, or have a "
            f"method with_bandwidth(bandwidth), got {shown(kernel)}"
        )
    if type(kernel) not in (IMQ, RBF):
        _check_bandwidth(own)
        _check_profile(kernel)


def _check_profile(kernel: Any) -> None:
    """Raise unless JAX can trace the profile, and it returns three arrays."""
    if kernel.__hash__ is None:
        raise TypeError(f"`kernel` must be hashable, as frozen dataclasses are, got {shown(kernel)}")
    static = without_bandwidth(kernel)
    with jax.enable_x64(True):
        r2 = jax.ShapeDtypeStruct((2, 3), np.float64)
        width = jax.ShapeDtypeStruct((), np.float64)
        try:
            profile = jax.eval_shape(lambda width, r2: with_bandwidth(static, width).profile(r2), width, r2)
        except (TypeError, ValueError, AttributeError) as error:
            reason = str(error).partition("\n")[0]
            raise TypeError(f"`kernel` must have a profile written with jax.numpy: {reason}") from error
    shapes = [getattr(part, "shape", None) for part in jax.tree.leaves(profile)]
    if shapes != [(2, 3)] * 3:
        raise ValueError(
            "`kernel` must have a profile that returns phi, phi', phi'' in the shape of r2, "
            f"for shape (2, 3) it returns {shapes}"
        )


def _check_bandwidth(bandwidth: Any) -> None:
    """Raise unless it is a positive number, None, or one that JAX traces."""
    if not isinstance(bandwidth, jax.core.Tracer) and bandwidth is not None:
        as_one_positive(bandwidth, "bandwidth")


def _inverse(bandwidth: Any) -> Any:
    """1 / bandwidth; an error where a kernel without one is used by itself."""
    if bandwidth is None:
        raise ValueError(
            "`bandwidth` is not set: a test sets it from the draws; give it to use the kernel alone"
        )
    return 1 / bandwidth


def median_bandwidth(draws: ArrayLike, *, rng: RandomSource = None) -> float:
    """Median over pairs i < j of different draws of |x_i - x_j|^2.

    All pairs where there are at most half a million; otherwise a random half million, drawn with `rng`.

    Parameters
    ----------
    draws : array-like (n, d)
    rng : int, Generator or SeedSequence, optional

    Returns
    -------
    float
        A squared distance, for `IMQ(bandwidth)`.

    Examples
    --------
    >>> import numpy as np
    >>> median_bandwidth(np.array([[0.0], [1.0], [3.0]]))
    4.0
    """
    x = as_numbers(draws, "draws", "an array of real numbers with one draw per row")
    if x.ndim != 2 or len(x) < 2 or not x.shape[1] or not np.isfinite(x).all():
        raise ValueError(f"`draws` must hold at least 2 finite draws, shape (n, d), got shape {x.shape}")
    generator, _ = seeded(rng, spawn=True)
    return median_squared_distance(x, generator)


def median_squared_distance(x: np.ndarray, rng: np.random.Generator | None = None) -> float:
    """As `median_bandwidth`, of validated draws; for more than 1000 of them `rng` picks pairs."""
    n = len(x)
    if n * (n - 1) // 2 <= MAX_MEDIAN_PAIRS:
        from scipy.spatial.distance import pdist

        r2 = pdist(x, "sqeuclidean")
    else:
        assert rng is not None
        i = rng.integers(n, size=MAX_MEDIAN_PAIRS)
        j = (i + rng.integers(1, n, size=MAX_MEDIAN_PAIRS)) % n
        r2 = np.empty(MAX_MEDIAN_PAIRS)
        for start in range(0, MAX_MEDIAN_PAIRS, 10_000):  # differences held at once
            part = slice(start, start + 10_000)
            gap = x.take(i[part], axis=0) - x.take(j[part], axis=0)
            r2[part] = np.einsum("ij,ij->i", gap, gap)
    if not np.isfinite(r2).all():
        raise ValueError("`draws` must not be so large: squared distances between draws overflow")
    apart = r2[r2 > 0]
    if not len(apart):
        raise ValueError(
            "`draws` must not be constant: all distances between draws are 0, so the kernel has no width; "
            "give one where the test takes it, by kernel=IMQ(bandwidth=1.0) or bandwidths=[1.0]"
        )
    return float(np.median(apart))
