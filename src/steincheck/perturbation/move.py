"""Draws after transitions of the jump kernel, made once and shared by the tests that use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, Seed, announce, as_count, as_numbers, as_positive, seeded, shown
from .._whitening import whitened, whitened_scores
from ..chains.reading import Sample
from ..draws import to_unconstrained
from ..modes.known import KnownModes, as_modes, known_modes
from ..modes.search import as_box, box_search_core
from ..result import Modes
from ..stein.quadratic import Inputs, Stack
from ..target import Target, log_density_at, require_target, score_at
from ..target.evaluation import Budget, CountedTarget, OutOfBudget, counting_target
from ..typing import DrawsLike, ModesLike
from ..wording import results as wording
from .maps import Accept, JumpKernel, jump_maps, metropolis, run

THETA = np.linspace(0.5, 1.5, 51)  # the paper's jump scales
N_STEPS = 10  # transitions by default, as in the paper's first experiments


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
    warnings: tuple[str, ...]
    log_density: np.ndarray
    seed: Seed | None = None

    def __repr__(self) -> str:
        steps = f"{self.n_steps} steps by {self.accept} between {len(self.modes)} modes"
        return f"<Perturbation: {len(self.draws)} draws, {len(self.theta)} theta, {steps}>"


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
    jumps = Jumps(theta=as_positive(theta, "theta"), n_steps=_check_steps(n_steps, accept), accept=accept)
    generator, seed = seeded(rng, spawn=True)
    sample = Sample(x, log_density_at(target, x))
    moved = perturb_core(sample, target, as_modes(modes, target), jumps, generator)
    announce(moved.warnings)
    return replace(moved, seed=seed)


def _check_steps(n_steps: Any, accept: Any) -> int:
    """The number of steps, if it is valid and `accept` an acceptance rule."""
    if not callable(accept):
        raise TypeError(f"`accept` must be a function of the log ratio, got {shown(accept)}")
    ratios = np.array([-2.0, 0.0, 2.0])
    rule = "a function that returns log probabilities"
    found = as_numbers(accept(ratios), "accept", rule, verb="returns")
    if found.shape != (3,) or not np.all(found <= 0):
        raise ValueError(f"`accept` must be {rule}, for {ratios.tolist()} it returns {shown(found.tolist())}")
    return as_count(n_steps, "n_steps")


class Jumps(NamedTuple):
    """The perturbation a test was asked for: one made before, or how to make it."""

    theta: np.ndarray
    n_steps: int
    accept: Accept
    modes: Any = None
    box: np.ndarray | None = None
    made: Perturbation | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that have defaults of their own, unless the perturbation was made before."""
        scales = {"theta": self.theta, "n_steps": self.n_steps, "accept": self.accept}
        return scales if self.made is None else {}


def perturb_core(
    sample: Sample, target: Target, modes: Modes, jumps: Jumps, rng: np.random.Generator
) -> Perturbation:
    """As `perturb`, with validated arguments."""
    x, log_p, *_ = sample
    name = getattr(jumps.accept, "__name__", repr(jumps.accept))
    if len(modes) == 1:
        samples = np.repeat(x[None], len(jumps.theta), axis=0)
        acceptance = np.zeros(len(jumps.theta))
        warnings: tuple[str, ...] = (wording.warning("one mode"),)
    else:
        maps = jump_maps(modes.locations, modes.covariances)
        kernel = JumpKernel(target, maps, jumps.theta, jumps.n_steps, jumps.accept)
        samples, acceptance = run(kernel, x, log_p, rng)
        centre = maps.centres.mean(axis=0)
        reach = np.linalg.norm(maps.centres - centre, axis=1).max()
        far = np.linalg.norm(centre) > 3 * reach  # maps of other covariances miss modes, but at theta = 1
        matters = far and not maps.shift_only and np.any(jumps.theta != 1)
        warnings = (wording.warning("far origin"),) if matters else ()
    return Perturbation(samples, jumps.theta, acceptance, x, modes, jumps.n_steps, name, warnings, log_p)


def as_jumps(arguments: Mapping[str, Any], *, default: ArrayLike = THETA) -> Jumps:
    """Validate the arguments that all perturbed tests take; by default theta is `default`."""
    require_target(arguments["target"])
    given = {name: arguments[name] for name in ("modes", "bounds", "theta", "n_steps", "accept")}
    modes, bounds, theta, n_steps, accept = given.values()
    box = as_box(bounds, arguments["target"].dim, modes)
    accept = metropolis if accept is None else accept
    n_steps = _check_steps(N_STEPS if n_steps is None else n_steps, accept)
    made = arguments["perturbation"]
    if made is None:
        scales = as_positive(default if theta is None else theta, "theta")
        return Jumps(scales, n_steps, accept, modes, box)
    if not isinstance(made, Perturbation):
        raise TypeError(f"`perturbation` must come from perturb, got {type(made).__name__}")
    twice = [f"`{name}`" for name, value in given.items() if value is not None]
    if twice:
        raise ValueError(f"`perturbation` has its own {', '.join(twice)}: give one or the other")
    return Jumps(made.theta, made.n_steps, accept, made=made)


def check_same_draws(perturbation: Perturbation, sample: Sample) -> None:
    """Raise unless the perturbation is one of the draws of `sample`, for the same target."""
    x, log_p, *_ = sample
    if not np.array_equal(perturbation.draws, x):
        raise ValueError(
            "`perturbation` must be one of the same draws in the same order as those of the test, got one of "
            f"{len(perturbation.draws)} draws for {len(x)}"
        )
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
    sample: Sample  # the tested draws
    rows: np.ndarray  # of these, among those given
    warnings: tuple[str, ...]


def requested_perturbation(inputs: Inputs, jumps: Jumps) -> Moved:
    """The perturbation that `jumps` asks for."""
    sample, target = inputs.sample, inputs.target
    every = np.arange(len(sample.x))
    stream = inputs.streams.modes
    if jumps.made is not None:
        check_same_draws(jumps.made, sample)
        return Moved(jumps.made, sample, every, move_warnings(jumps.made))
    budget = inputs.budget
    if jumps.box is None:
        known = known_modes(jumps.modes, target, sample, None, rng=stream, budget=budget)
    else:
        part = Budget(budget.left / 2)
        found = box_search_core(target, jumps.box, None, stream, budget=part)
        budget.made += part.made
        known = KnownModes(found, every, found.warnings)
    rows, few = affordable_rows(known.rows, inputs, jumps, budget)
    tested = sample.rows(rows)
    moved = perturb_core(tested, target, known.modes, jumps, inputs.streams.perturbation)
    return Moved(moved, tested, rows, (*known.warnings, *few, *move_warnings(moved)))


def affordable_rows(
    rows: np.ndarray, inputs: Inputs, jumps: Jumps, budget: Budget
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Those of the rows, evenly spaced, whose draws can be perturbed within the budget; a warning if not all.

    A draw takes one evaluation per jump, and a score wherever it ends.
    """
    score = CountedTarget(inputs.target).score_cost
    cost = score + len(jumps.theta) * (jumps.n_steps + score)
    if budget.left >= cost * len(rows):
        return rows, ()
    count = int(budget.left // cost)
    if count < 2:
        raise OutOfBudget(
            f"`max_evaluations` or `max_seconds` must allow more: {budget.left:.0f} evaluations are left, "
            f"and to perturb a draw takes {cost}"
        )
    few = wording.warning("few perturbed", count=count, n=len(rows))
    return rows[np.arange(count) * len(rows) // count], (few,)


def move_warnings(moved: Perturbation) -> tuple[str, ...]:
    """What the user of a test should know: hardly a draw moves where fewer than 1 in 100 are accepted."""
    few = moved.acceptance.max() < 0.01 and not moved.warnings
    return (wording.warning("low acceptance", least=0.01),) if few else moved.warnings


def perturbed_stack(inputs: Inputs, moved: Perturbation) -> Stack:
    """The unperturbed draws and the perturbed samples, (1 + J, n, d), and their scores, whitened.

    Scores at draws that no jump has moved are known.
    """
    x = moved.draws
    samples = np.concatenate([x[None], moved.samples])
    target = counting_target(inputs.target, inputs.budget)
    scores = np.repeat(score_at(target, x)[None], len(samples), axis=0)
    jumped = np.any(samples != x, axis=2)
    if jumped.any():
        scores[jumped] = score_at(target, samples[jumped])
    return whitened(samples, inputs.whiten), whitened_scores(scores, inputs.whiten)
