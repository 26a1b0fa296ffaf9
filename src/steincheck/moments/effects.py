"""Sizes of misfits: shifts, factors of spread and correlations, each one Newton step with its information."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .features import Spreads, Sums
from .frames import Frame

GAUSSIAN_INFORMATION = 2.0  # of the logarithm of a scale
SHRINKAGE = 4.0  # an estimated information within some two standard errors of the Gaussian one is drawn to it


class Effects(NamedTuple):
    """Estimates and standard errors; rows are modes, the last row is about all modes."""

    shift: np.ndarray  # (M + 1, K) in units of z
    shift_se: np.ndarray
    log_factor: np.ndarray  # (M + 1, K), of the draws' spread over that of the density
    log_factor_se: np.ndarray
    z_mean: np.ndarray  # (M + 1, K)
    z_sd: np.ndarray  # (M + 1, K)
    overall: np.ndarray  # (M + 1,), log factor
    overall_se: np.ndarray


class Correlations(NamedTuple):
    """Of the draws, the difference from that of the density, and its standard error; all (P,)."""

    observed: np.ndarray
    excess: np.ndarray
    excess_se: np.ndarray


def affine_effects(spreads: Spreads, dim: int) -> Effects:
    """Shift -mean(u) / kappa with kappa = -var(u) / cov(u, z), log factor log(-cov(u, z)) / kappa'.

    kappa' = var(uz) / cov(u, z)^2 is the information of a log scale: both steps are exact for a Gaussian
    however far off the draws are, and right to first order for any density. Standard errors by the
    delta method from the spread over blocks.
    """
    count = spreads.weight.sum(axis=1)  # (M + 1, 1)
    mean = {
        name: getattr(spreads, name).sum(axis=1) / count.clip(1e-300)
        for name in ("u", "z", "aa", "ab", "bb", "aabb")
    }
    with np.errstate(all="ignore"):
        m = np.where(mean["ab"] < 0, mean["ab"], np.nan)
        per_block = {name: getattr(spreads, name) - spreads.weight * mean[name][:, None] for name in mean}
        to_m = per_block["ab"] / m[:, None]
        kappa = mean["aa"] / -m
        shift = -mean["u"] / kappa
        to_kappa = per_block["aa"] / mean["aa"][:, None] - to_m
        shift_se = _error(-per_block["u"] / kappa[:, None] - shift[:, None] * to_kappa, count)
        information = mean["aabb"] / m**2 - 1
        to_information = (per_block["aabb"] - 2 * (mean["aabb"] / m)[:, None] * per_block["ab"]) / m[
            :, None
        ] ** 2
        log_factor, log_factor_se = _log_factor(np.log(-m), to_m, information, to_information, count)
    overall, overall_se = _overall(spreads, count, dim)
    return Effects(
        shift,
        shift_se,
        log_factor,
        log_factor_se,
        mean["z"],
        np.sqrt(mean["bb"]),
        overall[:, 0],
        overall_se[:, 0],
    )


def _log_factor(
    log_m: np.ndarray,
    to_m: np.ndarray,
    information: np.ndarray,
    to_information: np.ndarray,
    count: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """log(-m) over its information, the latter drawn to that of a Gaussian by as much as it is uncertain."""
    gap = information - GAUSSIAN_INFORMATION
    noise = _error(to_information, count)
    trust = gap**2 / (gap**2 + SHRINKAGE * noise**2)
    used = np.maximum(GAUSSIAN_INFORMATION + trust * gap, 0.1)
    estimate = log_m / used
    return estimate, _error(
        (to_m - estimate[:, None] * trust[:, None] * to_information) / used[:, None], count
    )


def _overall(spreads: Spreads, count: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Log factor of the overall scale: E[(x - centre).score] is -d, for a Gaussian c times as wide -d c^2."""
    total = spreads.radial.sum(axis=1) / count.clip(1e-300)
    with np.errstate(all="ignore"):
        m = np.where(total[:, :1] < 0, total[:, :1], np.nan)
        first = spreads.radial[:, :, :1] - spreads.weight * m[:, None]
        second = spreads.radial[:, :, 1:] - spreads.weight * total[:, None, 1:]
        information = dim * (total[:, 1:] / m**2 - 1)
        to_information = dim * (second - 2 * (total[:, 1:] / m)[:, None] * first) / m[:, None] ** 2
        return _log_factor(np.log(-m / dim), first / m[:, None], information, to_information, count)


def _error(influence: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Standard error of a mean from the sums of its influence over blocks (M + 1, q, K)."""
    q = influence.shape[1]
    return np.sqrt(np.sum(influence**2, axis=1) * q / max(q - 1, 1)) / count.clip(1e-300)


def quantile(blocks: int) -> float:
    """Of Student's t for a 95 % interval from so many blocks."""
    return float(special.stdtrit(max(blocks - 1, 1), 0.975))


def correlations(sums: Sums, spreads: Spreads, frame: Frame, n: int) -> Correlations:
    """Excess -M_ij / sqrt(M_ii M_jj) - R_ij with M = cov(u, z), R the correlation at the mode.

    It has mean zero for draws from the density, and is exact for Gaussian draws against a Gaussian density.
    """
    constants = frame.constants
    first = constants.pair_first
    second = constants.pair_second
    observed = _observed(spreads, frame)[first, second]
    share = sums.mode_count.sum(axis=1)
    expected = (share / share.sum()) @ constants.pair_overlap
    pair, diagonal = _conjugate_products(sums, spreads, expected, (first, second), n)
    with np.errstate(all="ignore"):
        root = np.sqrt(np.where(diagonal < 0, -diagonal, np.nan))
        scale = root[first] * root[second]
        variance = np.var(sums.correlation, axis=0) * len(sums.correlation) / n
        surplus = variance / scale**2 / (1 + (pair / scale) ** 2) - 1
    trust = surplus**2 / (surplus**2 + SHRINKAGE * 10 / len(sums.correlation))
    information = np.maximum(1 + trust * surplus, 0.1)
    error = _correlation_error(sums, pair, diagonal, scale, (first, second)) / n
    return Correlations(observed, (-pair / scale - expected) / information, error / information)


def _conjugate_products(
    sums: Sums, spreads: Spreads, expected: np.ndarray, columns: tuple[np.ndarray, np.ndarray], n: int
) -> tuple[np.ndarray, np.ndarray]:
    """cov(u, z) of each pair, symmetric, and of each direction with itself."""
    first, second = columns
    u_mean = sums.location.sum(axis=0) / n
    z_mean = spreads.z[-1].sum(axis=0) / n
    crossed = 0.5 * (u_mean[first] * z_mean[second] + u_mean[second] * z_mean[first])
    pair = sums.correlation.sum(axis=0) / n - expected - crossed
    return pair, sums.scale.sum(axis=0) / n - 1 - u_mean * z_mean


def _observed(spreads: Spreads, frame: Frame) -> np.ndarray:
    """Correlations of the draws within coordinates and within axes, as one block-diagonal matrix (K, K)."""
    d = len(spreads.own_products)
    whole = np.zeros((d + frame.n_axes, d + frame.n_axes))
    whole[:d, :d] = spreads.own_products
    whole[d:, d:] = spreads.axis_products
    spread = np.sqrt(np.diag(whole))
    return whole / np.maximum(np.outer(spread, spread), 1e-300)


def _correlation_error(
    sums: Sums,
    pair: np.ndarray,
    diagonal: np.ndarray,
    scale: np.ndarray,
    columns: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """n times the standard error of the excess, by the delta method, some pairs at a time."""
    q = len(sums.scale)
    scales = sums.scale - sums.scale.mean(axis=0)
    error = np.empty(len(pair))
    with np.errstate(all="ignore"):
        relative = scales / (2 * diagonal)
        for start in range(0, len(pair), 500):
            some = slice(start, start + 500)
            first, second = (column[some] for column in columns)
            moved = sums.correlation[:, some] - sums.correlation[:, some].mean(axis=0)
            influence = -moved + pair[some] * (relative[:, first] + relative[:, second])
            error[some] = np.sqrt(np.sum(influence**2, axis=0) * q / max(q - 1, 1)) / scale[some]
    return error
