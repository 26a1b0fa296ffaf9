"""The finite-set Stein discrepancy: a test linear in n that says where the misfit is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ._validation import RandomSource, announce, as_count, as_one_positive, check_fraction
from .chains.blocks import Blocks, autocorrelation_time, block_signs, block_sums, cut_blocks
from .chains.reading import Sample
from .draws import as_matrix
from .result import FssdResult, among_all, cannot_tell
from .stein.bootstrap import pvalue, random_blocks
from .stein.kernels import median_squared_distance
from .stein.quadratic import Streams, prepare, skew_warnings, split_rows
from .target import Target, score_at
from .typing import DrawsLike
from .wording.results import few_draws, warning

ROWS_PER_CHUNK = 2048  # the only shape compiled for the tested draws, whatever n


class Placement(NamedTuple):
    """Test locations and bandwidth."""

    locations: np.ndarray  #: (J, d)
    bandwidth: float  #: in units of squared distance


class FeatureMoments(NamedTuple):
    """First and second moments of the features of n draws, in the order (coordinate, location)."""

    n: int
    mean: np.ndarray  #: (d J,)
    second: np.ndarray  #: (d J, d J), mean of tau tau'

    @property
    def covariance(self) -> np.ndarray:
        """Unbiased covariance of the features."""
        return (self.second - np.outer(self.mean, self.mean)) * (self.n / (self.n - 1))

    @property
    def unbiased(self) -> np.ndarray:
        """Unbiased estimate of (E tau)^2, feature by feature."""
        return self.n / (self.n - 1) * (self.mean**2 - np.diag(self.second) / self.n)

    @property
    def signal_to_noise(self) -> float:
        """n times the unbiased estimate of |E tau|^2, in units of its standard deviation under H0."""
        noise = np.sqrt(2 * np.sum(self.covariance**2))
        return float(self.n * self.unbiased.sum() / noise) if noise > 0 else -np.inf

    @property
    def power_criterion(self) -> float:
        """Estimated mean over standard deviation of the statistic under H1."""
        along = self.mean @ self.second @ self.mean
        return float(_criterion(self.mean @ self.mean, np.trace(self.second), along, self.n))


def fssd_test(
    draws: DrawsLike,
    target: Target,
    *,
    n_locations: int = 10,
    train_fraction: float = 0.2,
    locations: ArrayLike | None = None,
    bandwidth: float | None = None,
    n_resamples: int = 999,
    check_score: bool = True,
    independent: bool = False,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> FssdResult:
    """Finite-set Stein discrepancy test (FSSD-opt).

    H0: the draws are independent and come from the target. With the Gaussian kernel
    k(x, v) = exp(-|x-v|^2 / bandwidth) and J locations v_j, the features::

        tau(x) = (s(x) k(x, v_j) + grad_x k(x, v_j)) / sqrt(d J),    d J numbers per draw,

    have mean zero under H0. The statistic is n times the unbiased estimate of |E tau|^2; its null
    distribution is sum_i w_i (Z_i^2 - 1) with w the eigenvalues of the covariance of tau, and is simulated.
    Locations and bandwidth are chosen on a training split to maximise the estimated power; the test uses the
    other draws. Linear in n.

    For Markov chains the beginning of every chain is used for training, and the null distribution of the sum
    over pairs of draws in different blocks comes from random signs of the blocks, as in `ksd_test`; so does
    that of draws with weights w, whose features are w tau, or in groups.

    Parameters
    ----------
    draws, target, check_score, independent, weights, log_weights, rng
        As in `ksd_test`.
    n_locations : int
        J, or the number of training draws if that is smaller.
    train_fraction : float
        Share of the draws used to place the locations, in (0, 1).
    locations : array (J, d), optional
        Locations of your own: nothing is trained, the two options above have no effect, and all draws are
        tested.
    bandwidth : float, optional
        Kernel bandwidth in units of squared distance, to go with `locations`; by default the median squared
        distance of the draws.
    n_resamples : int
        Simulated values of the null distribution.

    Returns
    -------
    FssdResult

    References
    ----------
    Jitkrittum, Xu, Szabo, Fukumizu and Gretton (2017). A linear-time kernel goodness-of-fit test. NeurIPS 30.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> draws = np.random.default_rng(0).normal(loc=0.5, size=(1000, 2))
    >>> sc.fssd_test(draws, target, rng=0).reject()
    True
    """
    inputs = prepare(locals())
    as_count(n_locations, "n_locations")
    check_fraction(train_fraction, "train_fraction")
    sample = inputs.sample._replace(scores=score_at(target, inputs.sample.x))
    if locations is not None:
        tested = np.arange(len(sample.x))
        places = as_matrix(locations, target.dim, minimum=1, name="locations")
        if bandwidth is None:
            bandwidth = median_squared_distance(sample.x, inputs.streams.bandwidth)
        placement = Placement(places, as_one_positive(bandwidth, "bandwidth"))
    elif bandwidth is None:
        train, tested = split_rows(sample, train_fraction, inputs.streams.split)
        placement = _trained_placement(sample.rows(train), n_locations, inputs.streams)
    else:
        raise ValueError(
            "`bandwidth` goes with `locations`: without them both are found on the training draws"
        )
    result = fssd_core(sample.rows(tested), placement, n_resamples, inputs.streams)
    result = replace(result, warnings=(*inputs.warnings, *result.warnings))
    announce(result.warnings)
    return among_all(replace(result, settings=inputs.settings), np.sort(tested), len(sample.x))


def fssd_core(sample: Sample, placement: Placement, n_resamples: int, streams: Streams) -> FssdResult:
    """The test on draws and their scores."""
    n, dim = sample.x.shape
    moments = feature_moments(sample, placement)
    eigenvalues = np.clip(np.linalg.eigvalsh(moments.covariance)[::-1], 0.0, None)
    blocks = None
    if sample.chain is None and sample.weight is None and sample.group is None:
        normals = streams.bootstrap.standard_normal((n_resamples, len(eigenvalues)))
        contributions, null = n * moments.unbiased, (normals**2 - 1) @ eigenvalues
    else:
        contributions, null, blocks = _flip_signs(sample, placement, moments.mean, n_resamples, streams)
    statistic = float(contributions.sum())
    # free of units: tau^2 is of the order of 1/bandwidth where the kernel sees draws
    unseen = eigenvalues[0] * placement.bandwidth < 1e-12
    least = 40  # draws: with fewer, the limiting distribution rejects correct samples too often
    return FssdResult(
        "FSSD test",
        statistic,
        np.nan if unseen else pvalue(statistic, null),
        null if len(null) else None,
        n,
        dim,
        (
            *([few_draws(n, least)] if n < least else []),
            *skew_warnings(sample.scores, sample),
            *([cannot_tell(blocks.remedy)] if blocks and blocks.remedy else []),
            *([cannot_tell(warning("unseen draws"))] if unseen else []),
        ),
        chains=None if blocks is None else blocks.record,
        **placement._asdict(),
        contributions=contributions.reshape(dim, -1).sum(axis=0),
        eigenvalues=eigenvalues,
        power_criterion=moments.power_criterion,
    )


def _flip_signs(
    sample: Sample, placement: Placement, mean: np.ndarray, n_resamples: int, streams: Streams
) -> tuple[np.ndarray, np.ndarray, Blocks | None]:
    """n times the mean of tau.tau' over pairs of draws in different blocks, and its values with other signs.

    The former feature by feature, (d J,), the latter (B,), none if there are too few blocks; the blocks of
    chains. These are long compared with the autocorrelation time of tau.(mean of tau). Blocks of other draws
    are random; groups stay together.
    """
    tau = np.concatenate(list(_in_chunks(sample, placement)))
    n = len(tau)
    blocks = share = None
    if sample.threads is not None:
        block, share = sample.threads
    elif sample.chain is None:
        block = random_blocks(n, streams.blocks, sample.group)
    else:
        blocks = cut_blocks(autocorrelation_time(tau @ mean, sample.chain), sample.chain)
        block = blocks.label
    sums = block_sums(tau, block, share)
    sizes = np.bincount(block, sample.weight) if share is None else share @ np.bincount(block, sample.weight)
    scale = n / (float(sizes.sum() ** 2 - np.sum(sizes**2)) or np.nan)
    within = np.sum(sums**2, axis=0)
    contributions = scale * (sums.sum(axis=0) ** 2 - within)
    if blocks and blocks.remedy:
        return contributions, np.empty(0), blocks
    signs = block_signs(len(sums), n_resamples, streams.bootstrap).astype(float)
    return contributions, scale * (np.sum((signs @ sums) ** 2, axis=1) - within.sum()), blocks


def feature_moments(sample: Sample, placement: Placement) -> FeatureMoments:
    """Moments of the weighted features over the draws, chunk by chunk: memory does not grow with n."""
    total: Any = 0.0
    second: Any = 0.0
    for tau in _in_chunks(sample, placement):
        total = total + tau.sum(axis=0)
        second = second + tau.T @ tau
    n = len(sample.x)
    return FeatureMoments(n, total / n, second / n)


def _in_chunks(sample: Sample, placement: Placement) -> Iterator[np.ndarray]:
    """The features of the draws, times their weights, (rows, d J) for each chunk of rows."""
    for start in range(0, len(sample.x), ROWS_PER_CHUNK):
        rows = np.arange(start, min(start + ROWS_PER_CHUNK, len(sample.x)))
        with jax.enable_x64(True):
            tau = _weighted_features(*_padded(sample.rows(rows), ROWS_PER_CHUNK), *placement)
        yield np.asarray(tau)[: len(rows)]


def _padded(sample: Sample, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws, scores and weights filled up to `size` rows; what is filled in has weight 0."""
    weight = np.ones(len(sample.x)) if sample.weight is None else sample.weight
    missing = size - len(sample.x)
    filled = [np.pad(values, [(0, missing), (0, 0)]) for values in (sample.x, sample.scores)]
    return filled[0], filled[1], np.pad(weight, (0, missing))


def features(x: Any, scores: Any, locations: Any, bandwidth: Any) -> Any:
    """tau (n, d, J) at the rows of x (n, d)."""
    n_locations, dim = locations.shape
    gap = x[:, :, None] - locations.T
    k = jnp.exp(-jnp.sum(gap**2, axis=1, keepdims=True) / bandwidth)
    return (scores[:, :, None] - 2 * gap / bandwidth) * k / jnp.sqrt(dim * n_locations)


@jax.jit
def _weighted_features(x: Any, scores: Any, weight: Any, locations: Any, bandwidth: Any) -> Any:
    """w tau (n, d J)."""
    return features(x, scores, locations, bandwidth).reshape(len(x), -1) * weight[:, None]


def _criterion(norm: Any, square: Any, along: Any, n: Any) -> Any:
    """Estimated mean over standard deviation of the statistic under H1.

    `norm` is |m|^2, `square` the mean of |tau|^2, `along` the mean of (tau.m)^2, m the mean of tau.
    """
    # 0.01 as in the reference implementation
    return (n * norm - square) / (n - 1) / (4 * along - 4 * norm**2 + 1e-2) ** 0.5


@jax.jit
def _negative_criterion(locations: Any, log_bandwidth: Any, x: Any, scores: Any, weight: Any) -> Any:
    """Minus the power criterion as a function of locations (J, d) and log bandwidth."""
    tau = _weighted_features(x, scores, weight, locations, jnp.exp(log_bandwidth))
    n = weight.sum()
    mean = tau.sum(axis=0) / n
    return -_criterion(jnp.sum(mean**2), jnp.sum(tau**2) / n, jnp.sum((tau @ mean) ** 2) / n, n)


_value_and_slopes = jax.jit(jax.value_and_grad(_negative_criterion, argnums=(0, 1)))


def _trained_placement(train: Sample, n_locations: int, streams: Streams) -> Placement:
    """The best of a few climbs from locations drawn from a Gaussian fitted to the training draws."""
    n, dim = train.x.shape
    covariance = np.atleast_2d(np.cov(train.x.T))
    values, vectors = np.linalg.eigh(covariance + 1e-12 * np.trace(covariance) / dim * np.eye(dim))
    noise = streams.blocks.standard_normal((min(n_locations, n), dim))
    locations = train.x.mean(axis=0) + noise * np.sqrt(np.clip(values, 0, None)) @ vectors.T
    median = median_squared_distance(train.x, streams.bandwidth)
    # in units in which a standard normal is unchanged: the criterion's regularisation has units
    unit = float(np.sqrt(median / (2 * dim)))
    scaled = train._replace(x=train.x / unit, scores=train.scores * unit)
    starts = [Placement(locations / unit, factor * median / unit**2) for factor in (4.0, 2.0, 1.0, 0.5, 0.25)]
    ends = [_climb(scaled, start) for start in starts]
    merits = [feature_moments(scaled, end).signal_to_noise for end in ends]
    # null standard deviations per halving: a narrow kernel gains more from a climb by noise
    best = ends[int(np.argmax(merits - 0.6 * np.arange(len(ends))))]
    return Placement(best.locations * unit, best.bandwidth * unit**2)


def _climb(train: Sample, start: Placement) -> Placement:
    """The start moved by a few steps up the power criterion on the training draws, if that makes it better.

    The bandwidth stays: the criterion grows with it by noise alone, and would carry it away.
    """
    from scipy.optimize import minimize

    arrays = _padded(train, max(256, 2 ** (len(train.x) - 1).bit_length()))  # one shape per doubling
    centre = train.x.mean(axis=0)
    spread = np.maximum(train.x.std(axis=0), 1e-12)  # the optimiser works on standardised coordinates

    def objective(standardised: np.ndarray) -> tuple[float, np.ndarray]:
        locations = centre + spread * standardised.reshape(start.locations.shape)
        with jax.enable_x64(True):
            value, slopes = _value_and_slopes(locations, np.log(start.bandwidth), *arrays)
            return float(value), (np.asarray(slopes[0], dtype=float) * spread).ravel()

    first = ((start.locations - centre) / spread).ravel()
    box = [(-5.0, 5.0)] * first.size
    few = {"maxiter": 5}  # more steps fit the noise of the training draws (experiments/fssd_study.py)
    found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=box, options=few)
    end = Placement(centre + spread * found.x.reshape(start.locations.shape), start.bandwidth)
    better = -found.fun > max(0.0, -objective(first)[0])
    # where nothing is wrong the criterion is largest, zero, far from all draws, where nothing can be tested
    seen = [np.trace(feature_moments(train, placement).second) for placement in (start, end)]
    return end if better and seen[1] >= 1e-6 * seen[0] else start
