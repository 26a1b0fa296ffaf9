"""Targets from NumPyro models."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._validation import needs
from ..draws.names import element_names
from ..target import Target, from_jax
from .parameters import Parameters, compiled_map, split, with_parameters


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Target:
    """Make a `Target` from a NumPyro model: its posterior density on the unconstrained space.

    Everything is computed in float64 whatever the global JAX setting, which is left alone.

    Parameters
    ----------
    model : callable
        The model, as given to ``numpyro.infer.NUTS``.
    *args, **kwargs
        Its arguments, data included, as given to ``mcmc.run``.

    Returns
    -------
    Target
        ``target.unconstrain(mcmc)`` maps draws of the latent sites, ``target.constrain`` maps back;
        deterministic sites are not coordinates.

    Raises
    ------
    ValueError
        If a latent site is discrete, or the model subsamples its data.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist  # doctest: +SKIP
    >>> def model():
    ...     numpyro.sample("tau", dist.HalfNormal(1.0))
    >>> sc.from_numpyro(model).names  # doctest: +SKIP
    ['log tau']
    """
    if not callable(model):
        raise TypeError(f"`model` must be a function with NumPyro primitives, got {type(model).__name__}")
    with needs("from_numpyro", "NumPyro", "numpyro"):
        from numpyro import handlers
        from numpyro.infer import util
    with jax.enable_x64(True):
        args, kwargs = jax.tree.map(_in_double, (args, kwargs))
        try:
            parameter_shapes, shapes = _latent_shapes(model, args, kwargs)
        except TypeError as error:
            raise TypeError(f"`model` fails for the arguments given: {error}") from error
    model = handlers.seed(model, jax.random.key(0))  # for sites that are not substituted: none is left

    def log_density(point: Any) -> Any:
        return -util.potential_energy(model, args, kwargs, split(point, shapes))

    def constrain(point: Any) -> Any:
        return _flat_values(util.constrain_fn(model, args, kwargs, split(point, shapes)), shapes)

    def unconstrain(row: Any) -> Any:
        return _flat_values(util.unconstrain_fn(model, args, kwargs, split(row, parameter_shapes)), shapes)

    names = tuple(name for key, shape in parameter_shapes.items() for name in element_names(key, shape))
    dim = sum(map(math.prod, shapes.values()))
    maps = compiled_map(constrain, dim), compiled_map(unconstrain, len(names))
    return with_parameters(from_jax(log_density, dim), Parameters(names, dim, *maps))


def _in_double(leaf: Any) -> Any:
    """Arrays of floats in float64 and out of NumPy's hands; anything else as it is."""
    if isinstance(leaf, (np.ndarray, jax.Array)) and jnp.issubdtype(leaf.dtype, jnp.floating):
        return jnp.asarray(np.array(leaf, dtype=np.float64))  # a copy: JAX keeps float32 copies of arrays
    return leaf


def _latent_shapes(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[dict[str, tuple[int, ...]]]:
    """Shapes of the latent sites in the order of the model, as stored and in unconstrained space.

    They are found by tracing: nothing is computed.
    """
    from numpyro import handlers
    from numpyro.infer import init_to_uniform, util

    def values(key: Any) -> list[OrderedDict[str, Any]]:
        seeded = handlers.seed(model, key)
        started = handlers.substitute(seeded, substitute_fn=init_to_uniform)  # some sites cannot be sampled
        sites = handlers.trace(started).get_trace(*args, **kwargs)
        stored = OrderedDict((name, site["value"]) for name, site in _latent_sites(sites).items())
        free = util.unconstrain_fn(seeded, args, kwargs, stored)
        return [stored, OrderedDict((name, free[name]) for name in stored)]

    found = jax.eval_shape(values, jax.random.key(0))
    return [{name: value.shape for name, value in kind.items()} for kind in found]


def _latent_sites(sites: Mapping[str, Any]) -> dict[str, Any]:
    """The latent sites; an error unless they are continuous, and their density the same at every call."""
    latent = {k: site for k, site in sites.items() if site["type"] == "sample" and not site["is_observed"]}
    if not latent:
        raise ValueError("`model` must have latent sites: there is nothing to test without any")
    for name, site in latent.items():
        if site["fn"].support.is_discrete:
            raise ValueError(
                f"site {name!r} of `model` is discrete: a density with a score is needed, so marginalise it "
                "(numpyro.distributions.MixtureSameFamily, or a sum over its values in numpyro.factor)"
            )
    for name, site in sites.items():
        if site["type"] == "plate" and site["args"][1] is not None and site["args"][1] < site["args"][0]:
            raise ValueError(
                f"plate {name!r} of `model` subsamples the data: the density must use all of them"
            )
    return latent


def _flat_values(values: Mapping[str, Any], order: Iterable[str]) -> Any:
    return jnp.concatenate([jnp.ravel(values[name]) for name in order])
