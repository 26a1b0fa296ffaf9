"""Targets of formulas with parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

from .._validation import RandomSource
from ..target import Target, jax_target


class LabelledDraws(NamedTuple):
    """Draws of a model, and the component of each.

    Attributes
    ----------
    draws : array (n, d)
    labels : array (n,)
        Of a Boltzmann machine the hidden units, (n, d_h).
    """

    draws: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class ModelTarget(Target):
    """A `Target` with exact draws, whose components are known.

    Parameters
    ----------
    sample : callable
        ``sample(n, rng) -> (n, d)``; the models say which further arguments theirs take.
    sample_with_labels : callable
        ``sample_with_labels(n, rng) -> LabelledDraws``: the same draws, and the component of each.

    Examples
    --------
    >>> from steincheck import models
    >>> target = models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws, labels = target.sample_with_labels(4, rng=0, weights=[1, 0])
    >>> labels
    array([0, 0, 0, 0])
    """

    sample: Callable[..., np.ndarray] = field(kw_only=True)
    sample_with_labels: Callable[..., LabelledDraws] = field(kw_only=True)


def formula_target(
    log_density: Partial, dim: int, sample_with_labels: Callable[..., LabelledDraws], names: Any = None
) -> ModelTarget:
    """Target of a JAX function of one point and of a function that makes exact draws."""

    def sample(n: int, rng: RandomSource = None, **options: Any) -> np.ndarray:
        return sample_with_labels(n, rng, **options).draws

    target = jax_target(log_density, dim)
    made = {item.name: getattr(target, item.name) for item in fields(target)}
    own = {"names": names, "sample": sample, "sample_with_labels": sample_with_labels}
    return ModelTarget(**{**made, **own})
