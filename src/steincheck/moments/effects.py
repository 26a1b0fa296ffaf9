"""Sizes of misfits at one mode: moments of the draws against those of the draws after correction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..chains.blocks import block_standard_error
from .correction import Affine, FirstMoments, ScoringStep, WeightedDraws, scoring_step


class Effects(NamedTuple):
    """Estimates and standard errors at one mode, in its standardised coordinates."""

    mean: np.ndarray  # (K,) of the draws, along each direction
    sd: np.ndarray  # (K,)
    shift: np.ndarray  # (K,) of the draws against the density
    shift_se: np.ndarray
    log_factor: np.ndarray  # (K,) of the draws' spread over that of the density
    log_factor_se: np.ndarray
    given_shift: np.ndarray  # (d,) with the other coordinates held fixed, in conditional standard deviations
    given_shift_se: np.ndarray
    given_log_factor: np.ndarray  # (d,)
    given_log_factor_se: np.ndarray
    correlation: np.ndarray  # (P,) of the draws
    excess: np.ndarray  # (P,) over that of the density
    excess_se: np.ndarray
    overall: np.ndarray  # () log factor
    overall_se: np.ndarray


class MeanAndCovariance(NamedTuple):
    """Mean and covariance, and the sums over blocks of the influence of the draws on them."""

    mean: np.ndarray  # (d,)
    covariance: np.ndarray  # (d, d)
    mean_influence: np.ndarray  # (q, d)
    influence: np.ndarray  # (q, d, d)


class BlockTotals(NamedTuple):
    """Sums over blocks of weights, draws y about an origin near their mean, scores t and their products."""

    origin: np.ndarray  # (d,)
    weight: np.ndarray  # (q,)
    y: np.ndarray  # (q, d)
    t: np.ndarray  # (q, d)
    yy: np.ndarray  # (q, d, d)
    ty: np.ndarray  # (q, d, d)

    @classmethod
    def empty(cls, q: int, origin: np.ndarray) -> BlockTotals:
        """Totals of q blocks, all zero."""
        d = len(origin)
        return cls(
            origin, np.zeros(q), np.zeros((q, d)), np.zeros((q, d)), np.zeros((q, d, d)), np.zeros((q, d, d))
        )

    def add(self, sample: WeightedDraws, block: np.ndarray) -> None:
        """Add draws whose blocks `block` (n,) do not decrease."""
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        ends = np.append(starts[1:], len(block))
        for start, end in zip(starts, ends, strict=True):
            b = block[start]
            y, t, weight = (part[start:end] for part in sample)
            y = y - self.origin
            weighted = y if np.all(weight == 1) else weight[:, None] * y
            self.weight[b] += weight.sum()
            self.y[b] += weighted.sum(axis=0)
            self.t[b] += weight @ t
            self.yy[b] += y.T @ weighted
            self.ty[b] += t.T @ weighted

    def standardised(self, centre: np.ndarray, sd: np.ndarray) -> BlockTotals:
        """Of (y - centre) / sd, and of the scores in these units."""
        return BlockTotals(
            (self.origin - centre) / sd,
            self.weight,
            self.y / sd,
            self.t * sd,
            self.yy / np.outer(sd, sd),
            self.ty * np.outer(sd, 1 / sd),
        )

    def centred(self) -> tuple[BlockTotals, np.ndarray, np.ndarray]:
        """About the means of y and t over all blocks, divided by the total weight; and these means."""
        share = self.weight / self.weight.sum()
        y_sum, t_sum, yy, ty = (part / self.weight.sum() for part in self[2:])
        y_mean = y_sum.sum(axis=0)
        t_mean = t_sum.sum(axis=0)
        y = y_sum - share[:, None] * y_mean
        t = t_sum - share[:, None] * t_mean
        yy = yy - y_sum[:, :, None] * y_mean - y_mean[:, None] * y[:, None, :]
        ty = ty - t_sum[:, :, None] * y_mean - t_mean[:, None] * y[:, None, :]
        mean = self.origin + y_mean
        return BlockTotals(mean, share, y, t, yy, ty), mean, t_mean


def corrected_moments(
    totals: BlockTotals, affine: Affine, sample: WeightedDraws, prior: np.ndarray
) -> tuple[MeanAndCovariance, MeanAndCovariance]:
    """Moments of draws y, and of the same draws after `affine` and one more step of scoring.

    `totals` are of y and of the scores t at ``affine(y)``; `sample` are draws after `affine`, for the fourth
    moments. Influence functions by the delta method: the derivative of the mean features is minus their
    covariance, as for the score functions of any family.
    """
    centred, mean, pull = totals.centred()
    covariance = centred.yy.sum(axis=0)
    drawn = MeanAndCovariance(
        mean, covariance, centred.y, centred.yy - centred.weight[:, None, None] * covariance
    )
    moved = FirstMoments(
        float(totals.weight.sum()),
        affine(mean[None])[0],
        pull,
        affine.matrix @ covariance @ affine.matrix.T,
        centred.ty.sum(axis=0) @ affine.matrix.T,
    )
    return drawn, _after(scoring_step(moved, sample, prior), centred, affine)


def _after(step: ScoringStep, totals: BlockTotals, affine: Affine) -> MeanAndCovariance:
    """Moments after a step: what the step does to them, and what the draws' own moments do."""
    d = len(step.shift)
    white = step.inverse_root @ affine.matrix  # from centred draws to w
    u = totals.t @ step.root @ step.inverse
    w = totals.y @ white.T
    uw = step.inverse @ step.root @ totals.ty @ white.T
    uw = 0.5 * (uw + uw.transpose(0, 2, 1)) + totals.weight[:, None, None] * np.eye(d)
    ww = white @ totals.yy @ white.T
    ww -= totals.weight[:, None, None] * ww.sum(axis=0)
    features = np.concatenate([u, np.diagonal(uw, axis1=1, axis2=2)], axis=1)
    first = np.linalg.solve(step.information, features.T).T
    generator = uw / (2 * step.pair_variance)
    generator[:, np.arange(d), np.arange(d)] = first[:, d:]
    generator -= totals.weight[:, None, None] * generator.sum(axis=0)
    root = step.root @ step.stretch
    return MeanAndCovariance(
        step.mean + step.root @ step.shift,
        root @ (white @ totals.yy.sum(axis=0) @ white.T) @ root.T,
        (w + first[:, :d]) @ step.root,
        root @ (2 * generator + ww) @ root.T,
    )


def effects_of(
    drawn: MeanAndCovariance,
    corrected: MeanAndCovariance,
    project: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
) -> Effects:
    """Sizes along the columns of `project` (d, K), of pairs of them, and of coordinates given the others."""
    gap = drawn.mean - corrected.mean
    gap_influence = drawn.mean_influence - corrected.mean_influence
    drawn_spread = _quadratic(drawn.covariance, project)
    corrected_spread = _quadratic(corrected.covariance, project)
    spread_influence = _quadratic(drawn.influence, project) / drawn_spread
    spread_influence -= _quadratic(corrected.influence, project) / corrected_spread
    observed, observed_influence = _correlations(drawn, project, pairs)
    expected, expected_influence = _correlations(corrected, project, pairs)
    return Effects(
        drawn.mean @ project,
        np.sqrt(drawn_spread.clip(0)),
        gap @ project,
        block_standard_error(gap_influence @ project),
        0.5 * np.log(drawn_spread / corrected_spread),
        block_standard_error(0.5 * spread_influence),
        *_given_others(drawn, corrected),
        observed,
        observed - expected,
        block_standard_error(observed_influence - expected_influence),
        *_overall(drawn, corrected),
    )


def _quadratic(matrix: np.ndarray, project: np.ndarray) -> np.ndarray:
    """l' A l for each column l of `project` and each matrix of a stack."""
    return np.sum(project * (matrix @ project), axis=-2)


def _correlations(
    moments: MeanAndCovariance, project: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of pairs of columns, and the influence on them (q, P)."""
    first, second = pairs
    spread = _quadratic(moments.covariance, project)
    scale = np.sqrt(spread[first] * spread[second])
    value = (project.T @ moments.covariance @ project)[first, second] / scale
    influence = (
        np.stack([(project.T @ block @ project)[first, second] for block in moments.influence]) / scale
    )
    relative = _quadratic(moments.influence, project) / spread
    return value, influence / scale - 0.5 * value * (relative[:, first] + relative[:, second])


def _given_others(
    drawn: MeanAndCovariance, corrected: MeanAndCovariance
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Shift and log factor of each coordinate with the others held fixed, each with its standard error."""
    precision = [np.linalg.pinv(moments.covariance, hermitian=True) for moments in (drawn, corrected)]
    stiffness = [np.diag(matrix) for matrix in precision]
    relative = [
        _quadratic(moments.influence, matrix) / stiff
        for moments, matrix, stiff in zip((drawn, corrected), precision, stiffness, strict=True)
    ]
    unit = precision[1] / np.sqrt(stiffness[1])
    return (
        (drawn.mean - corrected.mean) @ unit,
        block_standard_error((drawn.mean_influence - corrected.mean_influence) @ unit),
        0.5 * np.log(stiffness[1] / stiffness[0]),
        block_standard_error(0.5 * (relative[0] - relative[1])),
    )


def _overall(drawn: MeanAndCovariance, corrected: MeanAndCovariance) -> tuple[np.ndarray, np.ndarray]:
    """Log of the overall factor, half that of tr(C_corrected^-1 C_drawn) / d, and its standard error."""
    precision = np.linalg.pinv(corrected.covariance, hermitian=True)
    total = np.sum(precision * drawn.covariance)
    turned = precision @ drawn.covariance @ precision
    influence = np.sum(precision * drawn.influence, axis=(1, 2)) - np.sum(
        turned * corrected.influence, axis=(1, 2)
    )
    return 0.5 * np.log(total / len(precision)), block_standard_error(0.5 * influence / total)


def quantile(blocks: int) -> float:
    """Quantile of Student's t for a 95 % interval from sums over `blocks` blocks."""
    return float(special.stdtrit(max(blocks - 1, 1), 0.975))


def pool_effects(effects: list[Effects], share: np.ndarray) -> Effects:
    """Averages over modes, weighted by their shares of the draws."""
    means = []
    for name in Effects._fields:
        parts = np.stack([getattr(one, name) for one in effects])
        if name.endswith("_se"):
            parts = parts**2
            means.append(np.sqrt(np.tensordot(share**2, parts, axes=1)))
        else:
            means.append(np.tensordot(share, parts, axes=1))
    return Effects(*means)
