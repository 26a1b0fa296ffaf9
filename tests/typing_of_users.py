"""A user's script, which mypy reads and nobody runs: calls that fit the types, and a few that must not."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

import steincheck as sc
from steincheck.typing import BoundsLike, DrawsLike, ModesLike, RandomSource

target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
x = target.sample(500, 0)
places = [[-3.0, 0.0], [3.0, 0.0]]
covariances = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]


class Table:
    """As pandas and polars have it."""

    columns = ("a", "b")


class Mcmc:
    """As NumPyro has it."""

    def get_samples(self, group_by_chain: bool = False) -> dict[str, np.ndarray]:
        return {"a": x[None, :, 0] if group_by_chain else x[:, 0]}


class Fit:
    """As CmdStanPy has it."""

    def draws_pd(self, *, inc_warmup: bool = False) -> dict[str, np.ndarray]:
        return {"a": x[:, 0], "b": x[:, 1]}


def passed_on(
    draws: DrawsLike,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    rng: RandomSource = None,
) -> sc.Verdict:
    return sc.check(draws, target, modes=modes, bounds=bounds, rng=rng)


verdict = passed_on(x, places, rng=np.random.default_rng(0))
fits: bool | None = verdict.fits
pvalue: float = verdict.pvalue
sentences: list[str] = [str(finding) for finding in verdict.findings]

passed_on(x.tolist(), np.array(places))
passed_on([x, x[:100]], (places, covariances))
passed_on([[0.5, 1], [0.25, 2]], (np.array(places), np.array(covariances)))
passed_on({"a": x[:, 0], "b": x[:, 1].tolist()}, sc.find_modes(target, draws=x))
passed_on(sc.as_draws(x), bounds=(-5, 5.0))
passed_on(x, bounds=[(-5, 5), (-1.0, 1.0)])
passed_on(x, bounds=np.array([[-5, 5], [-1, 1]]))
passed_on(Table())
passed_on([Table(), Table()])
passed_on(Mcmc())
passed_on(Fit())

width: float = sc.median_bandwidth([[0.0, 1.0], [1.0, 0.0]], rng=0)
result: sc.result.KsdResult = sc.ksd_test(
    x, target, kernel=sc.IMQ(width), precondition=[[1.0, 0.0], [0.0, 1.0]]
)
sc.ksdagg_test(x, target, bootstrap="blocks")
sc.flux_test(x, target, variant="exact")
moved = sc.perturb(x, target, places, [0.9, 1.0], n_steps=10).samples
table = sc.compare({"whole": x, "half": sc.as_draws(x[:250])}, target, modes=places).table
rates = sc.calibrate(target, target.sample, 100, alpha=0.05).rates
ax: Axes = sc.plot.draws(x, modes=places)
sc.plot.null_distribution(result, ax=ax).set_title("KSD")

# an unused ignore is an error: these fail if a type takes anything
sc.check(3, target)  # type: ignore[arg-type]
sc.check("draws.csv", target)  # type: ignore[arg-type]
sc.check(x, target, modes=3)  # type: ignore[arg-type]
sc.check(x, target, bounds="a")  # type: ignore[arg-type]
sc.ksd_test(x, target, precondition=target)  # type: ignore[arg-type]
sc.ksd_test(x, target, bootstrap="wild")  # type: ignore[arg-type]
sc.flux_test(x, target, variant="fast")  # type: ignore[arg-type]
sc.plot.theta_profile(result)  # type: ignore[arg-type]
sc.plot.draws(x, ax=x)  # type: ignore[arg-type]
