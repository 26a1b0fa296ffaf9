import arviz as az
import numpy as np
import pytest
import xarray

import steincheck as sc

pytestmark = pytest.mark.adapters

NEW = int(az.__version__.partition(".")[0]) >= 1  # InferenceData is a DataTree
NAMES = ["mu", *(f"theta[{i},{j}]" for i in range(2) for j in range(3))]


def from_dict(**groups):
    return az.from_dict(groups) if NEW else az.from_dict(**groups)


@pytest.fixture
def idata():
    rng = np.random.default_rng(0)
    posterior = {"mu": rng.normal(size=(4, 50)), "theta": rng.normal(size=(4, 50, 2, 3))}
    return from_dict(posterior=posterior, sample_stats={"diverging": np.zeros((4, 50), dtype=bool)})


def test_draws_of_other_kinds_become_a_posterior():
    values = {"mu": np.zeros((4, 50)), "theta": np.arange(4 * 50 * 6.0).reshape(4, 50, 2, 3)}
    result = sc.to_arviz(values)
    np.testing.assert_array_equal(result.posterior["theta[1,2]"].values, values["theta"][..., 1, 2])
    assert list(az.summary(result, kind="stats").index)[:2] == ["mu", "theta[0,0]"]
    assert sc.to_arviz(np.zeros((20, 3))).posterior["x[2]"].shape == (1, 20)
    with pytest.raises(ValueError, match=r"chains of one length for ArviZ, got lengths \[5, 4\]"):
        sc.to_arviz([np.zeros((5, 2)), np.zeros((4, 2))])


def test_a_verdict_for_arviz(tmp_path):
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    rng = np.random.default_rng(0)
    values = np.array([-3.0, -3.0, -3.0, 3.0])[:, None, None] + rng.normal(size=(4, 300, 1))
    idata = from_dict(posterior={"x": values})
    verdict = sc.check(idata, target, modes=[[-3.0], [3.0]], rng=0)
    assert verdict.fits is False
    checked = sc.to_arviz(idata, verdict)
    group = checked.sample_stats
    assert group["mode"].shape == (4, 300)
    right = int(np.argmax(verdict.modes.locations[:, 0]))
    assert ((group["mode"] == right).values == (values[..., 0] > 0)).mean() > 0.99
    mean = idata.posterior["x"].weighted(group["importance_weight"]).mean()
    assert abs(float(mean)) < 0.2
    checked.to_netcdf(str(tmp_path / "checked.nc"))
    again = az.from_netcdf(str(tmp_path / "checked.nc"))
    np.testing.assert_array_equal(again.sample_stats["mode"], group["mode"])
    assert checked.attrs["sentence"] == verdict.sentence
    assert group["importance_weight"].mean() == pytest.approx(1)
    tree = sc.to_arviz(idata if NEW else idata.to_datatree(), verdict)
    assert isinstance(tree, xarray.DataTree)
    assert tree["sample_stats"]["mode"].shape == (4, 300)
    with pytest.raises(ValueError, match="`verdict` must be about these 200 draws, not about 1200"):
        sc.to_arviz({"x": np.zeros((4, 50))}, verdict)


def test_the_summary_agrees_with_arviz(idata):
    target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=7, names=NAMES)
    verdict = sc.check(idata, target, modes=np.zeros((1, 7)), rng=0)
    summary = verdict.summary()
    expected = az.summary(idata, round_to="none")
    assert summary["parameter"] == NAMES
    for column in ("ess_bulk", "r_hat"):
        np.testing.assert_allclose(summary[column], expected[column], rtol=1e-6)
    tails = az.ess(idata, method="tail", prob=(0.05, 0.95))  # those of ArviZ 1 are at 11 and 89 %
    np.testing.assert_allclose(summary["ess_tail"][NAMES.index("mu")], tails["mu"], rtol=1e-6)
    np.testing.assert_allclose(summary["mean"], expected["mean"], rtol=1e-6)
