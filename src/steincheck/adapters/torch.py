"""Targets from PyTorch functions: energy models, normalising flows, densities of torch.distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._validation import as_count, needs
from ..target.record import MAX_DIM, Batch, Target, probe_points
from ..wording.results import warning


def from_torch(
    log_density: Callable[[Any], Any],
    dim: int,
    *,
    names: Sequence[str] | None = None,
    sample: Callable[[int, Any], np.ndarray] | None = None,
) -> Target:
    """Make a `Target` from a PyTorch function; the score by automatic differentiation, in batches.

    Parameters
    ----------
    log_density : callable
        Function of one point, (d,) -> scalar, or of a batch, (n, d) -> (n,), such as ``flow.log_prob``; which
        of the two is found out. It gets float64 tensors unless it is a module (or a method of one) with other
        parameters; a module should be in ``eval()`` mode.
    dim : int
        The dimension d.
    names, sample
        As in `Target`.

    Returns
    -------
    Target

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> target = sc.from_torch(lambda x: -0.5 * (x**2).sum(), dim=2)  # doctest: +SKIP
    >>> target.score(np.ones((1, 2)))  # doctest: +SKIP
    array([[-1., -1.]])
    """
    if not callable(log_density):
        raise TypeError(f"`log_density` must be a function, got {type(log_density).__name__}")
    as_count(dim, "dim", maximum=MAX_DIM)
    with needs("from_torch", "PyTorch", "torch"):
        import torch
    owner = getattr(log_density, "__self__", log_density)
    held = (*owner.parameters(), *owner.buffers()) if isinstance(owner, torch.nn.Module) else ()
    first = next((tensor for tensor in held if tensor.is_floating_point()), None)
    form = {"dtype": torch.float64, "device": None}
    if first is not None:
        form = {"dtype": first.dtype, "device": first.device}
    if form["dtype"] != torch.float64:
        warnings.warn(warning("single precision", dtype=form["dtype"]), stacklevel=2)
    points = torch.as_tensor(probe_points(int(dim), 3 if dim != 3 else 4), **form)
    value = _of_batches(torch, log_density, points)

    def score(points: Any) -> Any:
        points = points.detach().requires_grad_(True)
        return torch.autograd.grad(value(points).sum(), points)[0]

    try:
        score(points)
    except RuntimeError as error:  # no gradient, or a complex value
        raise TypeError(
            f"`log_density` must return a real tensor that depends on the point: {error}"
        ) from error
    return Target(
        _batch_function(torch, value, form, np.array(-np.inf)),
        _batch_function(torch, score, form, np.full(int(dim), np.nan)),
        dim=int(dim),
        names=names,
        sample=sample,
    )


def _of_batches(torch: Any, log_density: Callable[[Any], Any], points: Any) -> Callable[[Any], Any]:
    """The function of batches that a function of one point or of batches is; an error if it is neither."""
    try:
        if log_density(points).shape == points.shape[:1]:
            return log_density
    except Exception:  # of any kind: the function is not one of batches, and is tried with one point
        pass
    try:
        value = log_density(points[0])
    except (TypeError, ValueError, LookupError, RuntimeError) as error:
        raise ValueError(
            f"`log_density` fails for a point of shape {(points.shape[1],)}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise ValueError(
            "`log_density` must map one point (d,) to a scalar tensor or a batch (n, d) to (n,), but for "
            f"d = {points.shape[1]} one point gives {getattr(value, 'shape', type(value).__name__)}"
        )

    def scalar(point: Any) -> Any:
        return log_density(point).reshape(())

    together = torch.func.vmap(scalar, chunk_size=256)
    try:
        together(points)
    except RuntimeError:  # branches on values
        return lambda points: torch.stack([scalar(point) for point in points])
    return together


def _batch_function(
    torch: Any, function: Callable[[Any], Any], form: dict[str, Any], missing: np.ndarray
) -> Batch:
    """A function of tensors as one of arrays; a row at which it raises is `missing`, the others are not."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        if not len(x):
            return np.empty((0, *missing.shape))
        if len(x) <= 4096:  # points at once, which bounds the memory
            try:
                return function(torch.as_tensor(np.array(x), **form)).detach().cpu().numpy()
            except (ValueError, RuntimeError):
                if len(x) == 1:
                    return missing[None]
        half = len(x) // 2
        return np.concatenate([evaluate(x[:half]), evaluate(x[half:])])

    return evaluate
