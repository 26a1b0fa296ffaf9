"""Draws after transitions of the jump kernel, made once and shared by the tests that use them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validation import (
    RandomSource,
    Seed,
    announce,
    as_count,
    as_numbers,
    as_positive,
    as_stored,
    as_texts,
    check_shape,
    own_stream,
    require_kind,
    shown,
)
from ..draws import to_unconstrained
from ..draws.record import chain_of_rows
from ..modes.arguments import as_modes
from ..modes.box import box_beside, box_search_core
from ..modes.held_out import KnownModes, known_modes
from ..result import Modes, as_plain
from ..stein.inputs import Prepared
from ..target import Target, log_density_at, require_target
from ..typing import DrawsLike, ModesLike
from .maps import Accept, JumpMaps, barker, jump_maps, metropolis
from .runs import run_compiled, run_steps, skip_rejections

THETA = np.linspace(0.5, 1.5, 51)  # the paper's jump scales
N_STEPS = 10  # transitions by default, as in the paper's first experiments
LOW_ACCEPTANCE = 0.01  # below, hardly a draw has moved after the default number of steps
FAR_FROM_ORIGIN = 3.0  # distance of the modes' centre, relative to their distance from the centre
STEPS_PER_PAIR = 10  # with more steps per pair of modes, skipping rejections is faster


@dataclass(frozen=True, eq=False, repr=False)
class Perturbation:
    """Draws after the perturbation; made by `perturb`, and taken by the perturbed tests.

    Attributes
    ----------
    samples : array (J, n, d)
        The perturbed draws, one sample per jump scale.
    theta : array (J,)
        The jump scales.
    acceptance : array (J,)
        Share of proposals accepted at each jump scale.
    draws : array (n, d)
        The unperturbed draws.
    modes : Modes
        The modes between which they were moved.
    n_steps : int
        Number of transitions.
    accept : str
        Name of the acceptance rule.
    warnings : tuple of str
    log_density : array (n,)
        Log density at the unperturbed draws.
    seed : int, SeedSequence or None
        The `rng` of `perturb` that gives the same again; None for one made within a test, whose `settings`
        do.
    """

    samples: np.ndarray
    theta: np.ndarray
    acceptance: np.ndarray
    draws: np.ndarray
    modes: Modes
    n_steps: int
    accept: str
    warnings: tuple[str, ...] = ()
    log_density: np.ndarray | None = None
    seed: Seed | None = None

    def __post_init__(self) -> None:
        require_kind(self.modes, Modes, "modes")
        as_count(self.n_steps, "n_steps")
        draws = as_stored(self.draws, "draws")
        theta = as_positive(self.theta, "theta")
        if draws.ndim != 2:
            raise ValueError(f"`draws` must have shape (n, d), one draw per row, got shape {draws.shape}")
        own = {name: as_stored(getattr(self, name), name) for name in ("samples", "acceptance")}
        check_shape(own["samples"], (len(theta), *draws.shape), "samples", "the draws moved by each theta")
        check_shape(own["acceptance"], theta.shape, "acceptance", "a share per theta")
        if not np.all((own["acceptance"] >= 0) & (own["acceptance"] <= 1)):
            raise ValueError(f"`acceptance` must hold shares, from 0 to 1, got {shown(self.acceptance)}")
        require_kind(self.accept, str, "accept")
        check_shape(self.modes.locations, (len(self.modes), draws.shape[1]), "modes", "points like the draws")
        if self.log_density is not None:
            own["log_density"] = as_stored(self.log_density, "log_density")
            check_shape(own["log_density"], draws.shape[:1], "log_density", "that of each draw")
            if np.isnan(own["log_density"]).any():
                raise ValueError("`log_density` must be that of each draw, got NaN")
        own |= {"draws": draws, "theta": theta}
        object.__setattr__(self, "warnings", as_texts(self.warnings, "warnings"))
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        n, dim = self.draws.shape
        scales = f"{len(self.theta)} theta" if len(self.theta) > 1 else f"theta = {self.theta[0]:g}"
        steps = f"{self.n_steps} steps by {self.accept} between {len(self.modes)} modes"
        return f"<Perturbation: {n} draws, d = {dim}, {scales}, {steps}>"

    def to_dict(self) -> dict[str, Any]:
        """How it was made, in plain Python values; the draws themselves are left out."""
        record = {name: getattr(self, name) for name in ("theta", "acceptance", "n_steps", "accept", "seed")}
        return as_plain(record)


def move_warnings(moved: Perturbation) -> tuple[str, ...]:
    """What the user of a test should know about the perturbation."""
    if moved.warnings or moved.acceptance.max() >= LOW_ACCEPTANCE:
        return moved.warnings
    return (
        f"fewer than {LOW_ACCEPTANCE:.0%} of the jumps are accepted at every theta: the perturbation "
        "hardly moves the draws; the modes may be wrong or far from elliptic, or more steps are needed",
    )


def perturb(
    draws: DrawsLike,
    target: Target,
    modes: ModesLike,
    theta: ArrayLike,
    *,
    n_steps: int,
    accept: Accept = metropolis,
    rng: RandomSource = None,
) -> Perturbation:
    """Apply `n_steps` transitions of the jump kernel to every draw, for all jump scales at once.

    The kernel draws an ordered pair of modes (i, j) uniformly, proposes the map::

        x' = A_j^(1/2) A_i^(-1/2) (x - theta mu_i) + theta mu_j

    with jump scale theta, mu and A the modes' locations and covariances, and accepts by `accept` of
    p(x')/p(x) |A_j|^(1/2)/|A_i|^(1/2): it leaves the target invariant. One pair is drawn per point and step
    and shared by all theta; the uniforms of the acceptance are independent. Where there are more than ten
    steps per pair of modes, rejected proposals are skipped: the time to the next accepted one is drawn
    instead, for each theta by itself. If the target is a JAX function all steps run in one compiled program.
    With a single mode the perturbation is the identity, with a warning. Where the
    covariances differ the maps depend on the origin of x, unless theta is 1; a warning says if it is far.

    Parameters
    ----------
    draws : array (n, d), or anything that `as_draws` takes
        Draws are moved one by one, those of chains too.
    target : Target
    modes : Modes, (locations, covariances) or locations
    theta : float or array (J,)
        Jump scales, positive.
    n_steps : int
        T, the number of transitions.
    accept : callable
        `metropolis` or `barker`: a function of the log ratio that returns the log acceptance probability.
    rng : int, Generator or SeedSequence, optional

    Returns
    -------
    Perturbation

    References
    ----------
    Liu, Duncan and Gandy (2023). Using perturbation to improve goodness-of-fit tests based on kernelized
    Stein discrepancy. ICML. Sec. 5.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws = target.sample(200, np.random.default_rng(0))
    >>> sc.perturb(draws, target, [[-3.0], [3.0]], 1.0, n_steps=10, rng=0).samples.shape
    (1, 200, 1)
    """
    require_target(target)
    x = to_unconstrained(draws, target, minimum=1).values
    scales = as_positive(theta, "theta")
    n_steps = _check_steps(n_steps, accept)
    generator, seed = own_stream(rng)
    log_p = log_density_at(target, x)
    moved = perturb_core(
        x,
        log_p,
        target,
        as_modes(modes, target),
        scales,
        n_steps=n_steps,
        accept=accept,
        rng=generator,
    )
    announce(moved.warnings)
    return replace(moved, seed=seed)


def _check_steps(n_steps: Any, accept: Any) -> int:
    """The number of steps, if it is valid and `accept` an acceptance rule."""
    count = as_count(n_steps, "n_steps")
    if not callable(accept):
        raise TypeError(f"`accept` must be a function of the log ratio, got {shown(accept)}")
    ratios = np.array([-2.0, 0.0, 2.0])
    log_probability = as_numbers(
        accept(ratios), "accept", "a function that returns log probabilities", verb="returns"
    )
    if log_probability.shape != (3,) or not np.all(log_probability <= 0):
        raise ValueError(
            "`accept` must return the log of the acceptance probability for each log ratio, for "
            f"{ratios.tolist()} it returns {shown(log_probability.tolist())}"
        )
    return count


def perturb_core(
    x: np.ndarray,
    log_p: np.ndarray,
    target: Target,
    modes: Modes,
    theta: np.ndarray,
    *,
    n_steps: int,
    rng: np.random.Generator,
    accept: Accept = metropolis,
) -> Perturbation:
    """`perturb` of validated draws with log densities `log_p`, by the fastest way there is for the target."""
    name = getattr(accept, "__name__", repr(accept))
    n_pairs = len(modes) * (len(modes) - 1)
    if not n_pairs:
        warning = "only one mode is known: the perturbation leaves every draw where it is"
        still = np.repeat(x[None], len(theta), axis=0)
        return Perturbation(still, theta, np.zeros(len(theta)), x, modes, n_steps, name, (warning,), log_p)
    maps = jump_maps(modes.locations, modes.covariances)
    if STEPS_PER_PAIR * n_pairs < n_steps:
        found = skip_rejections(x, log_p, target, maps, theta, n_steps, accept, rng)
    elif target.jax_log_density is not None and accept in (metropolis, barker):
        found = run_compiled(x, target, maps, theta, n_steps, accept, rng)
    else:
        found = run_steps(x, log_p, target, maps, theta, n_steps, accept, rng)
    samples, acceptance = found
    warnings = _origin_warnings(maps, theta)
    return Perturbation(samples, theta, acceptance, x, modes, n_steps, name, warnings, log_p)


def _origin_warnings(maps: JumpMaps, theta: np.ndarray) -> tuple[str, ...]:
    centre = maps.centres.mean(axis=0)
    reach = np.linalg.norm(maps.centres - centre, axis=1).max()
    if maps.shift_only or np.linalg.norm(centre) <= FAR_FROM_ORIGIN * reach or np.all(theta == 1):
        return ()
    return (
        "the modes have different covariances and lie far from the origin: jumps with theta other than 1 "
        "miss them; centre the draws and shift the target accordingly",
    )


class Jumps(NamedTuple):
    """The perturbation a test was asked for: one made before, or how to make it."""

    made: Perturbation | None
    modes: Any
    bounds: Any  # as the user said
    box: np.ndarray | None
    theta: np.ndarray
    n_steps: int
    accept: Accept


def as_jumps(
    target: Target,
    modes: Any,
    bounds: Any,
    theta: Any,
    n_steps: Any,
    accept: Any,
    perturbation: Any,
    *,
    default_theta: Any = THETA,
) -> Jumps:
    """Validate what all perturbed tests take; arguments that are None have their defaults."""
    require_target(target)
    box = box_beside(modes, bounds, target.dim)
    given = {"modes": modes, "bounds": bounds, "theta": theta, "n_steps": n_steps, "accept": accept}
    accept = metropolis if accept is None else accept
    n_steps = _check_steps(N_STEPS if n_steps is None else n_steps, accept)
    if perturbation is None:
        scales = as_positive(default_theta if theta is None else theta, "theta")
        return Jumps(None, modes, bounds, box, scales, n_steps, accept)
    if not isinstance(perturbation, Perturbation):
        raise TypeError(f"`perturbation` must come from perturb, got {type(perturbation).__name__}")
    twice = [f"`{name}`" for name, value in given.items() if value is not None]
    if twice:
        raise ValueError(f"`perturbation` has its own {', '.join(twice)}: give one or the other")
    return Jumps(perturbation, None, None, None, perturbation.theta, perturbation.n_steps, accept)


def jump_settings(jumps: Jumps) -> dict[str, Any]:
    """The arguments by which the draws were perturbed."""
    if jumps.made is not None:
        return {"perturbation": jumps.made}
    return {
        "modes": jumps.modes,
        "bounds": jumps.bounds,
        "theta": jumps.theta,
        "n_steps": jumps.n_steps,
        "accept": jumps.accept,
    }


def check_same_draws(perturbation: Perturbation, x: np.ndarray, log_p: np.ndarray) -> None:
    """Raise unless the perturbation is one of the draws `x`, for a target with log density `log_p` there."""
    if not np.array_equal(perturbation.draws, x):
        raise ValueError(
            "`perturbation` must be one of the same draws in the same order as those of the test, got one of "
            f"{len(perturbation.draws)} draws for {len(x)}"
        )
    if perturbation.log_density is None:
        return
    gap = perturbation.log_density - log_p
    differ = np.flatnonzero(np.abs(gap - np.median(gap)) > 1e-6 * (1 + np.abs(log_p)))  # a constant is free
    if len(differ):
        raise ValueError(
            "`perturbation` must be one for the target of the test, got one for another density: relative to "
            f"the other draws they differ by {gap[differ[0]] - np.median(gap):.4g} at row {differ[0]}"
        )


class Moved(NamedTuple):
    """The perturbation of a test, whose `draws` are tested, and what is known of these."""

    perturbation: Perturbation
    chain: np.ndarray | None  # of each tested draw
    rows: np.ndarray  # of the tested draws, among those given
    warnings: tuple[str, ...]


def requested_perturbation(inputs: Prepared, target: Target, jumps: Jumps) -> Moved:
    """The perturbation that `jumps` asks for."""
    if jumps.made is not None:
        check_same_draws(jumps.made, inputs.x, inputs.log_p)
        return Moved(jumps.made, inputs.chain, np.arange(len(inputs.x)), move_warnings(jumps.made))
    modes, rows, warnings = _modes_between(inputs, target, jumps)
    moved = perturb_core(
        inputs.x[rows],
        inputs.log_p[rows],
        target,
        modes,
        jumps.theta,
        n_steps=jumps.n_steps,
        accept=jumps.accept,
        rng=inputs.streams.perturbation,
    )
    return Moved(moved, chain_of_rows(inputs.chain, rows), rows, (*warnings, *move_warnings(moved)))


def _modes_between(inputs: Prepared, target: Target, jumps: Jumps) -> KnownModes:
    """The modes between which draws jump: given, found in the box, or found from held-out draws."""
    stream = inputs.streams.modes
    if jumps.box is None:
        return known_modes(jumps.modes, target, inputs.x, None, chain=inputs.chain, rng=stream)
    found = box_search_core(target, jumps.box, None, stream)
    return KnownModes(found, np.arange(len(inputs.x)), found.warnings)
