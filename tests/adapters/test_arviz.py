import arviz as az
import numpy as np
import pytest
import xarray

import steincheck as sc


@pytest.fixture
def idata():
    rng = np.random.default_rng(0)
    posterior = {"mu": rng.normal(size=(4, 50)), "theta": rng.normal(size=(4, 50, 2, 3))}
    return az.from_dict(posterior=posterior, sample_stats={"diverging": np.zeros((4, 50), dtype=bool)})


def test_modes_and_weights_join_the_statistics_of_the_sampler(idata):
    modes = np.repeat([0, 1, 0, -1], 50)
    weights = np.linspace(0, 1, 200)
    result = sc.to_arviz(idata, modes=modes, weights=weights, attributes={"sentence": "No misfit found."})
    assert isinstance(result, az.InferenceData)
    assert set(result.sample_stats.data_vars) == {"diverging", "mode", "importance_weight"}
    np.testing.assert_array_equal(result.sample_stats["mode"].values.ravel(), modes)
    assert result.sample_stats["importance_weight"].mean() == pytest.approx(1)
    assert result.attrs["sentence"] == "No misfit found."
    assert "mode" not in idata.sample_stats


def test_a_data_tree_stays_one(idata):
    result = sc.to_arviz(idata.to_datatree(), modes=np.zeros(200))
    assert isinstance(result, xarray.DataTree)
    assert result["sample_stats"]["mode"].shape == (4, 50)


def test_draws_of_other_kinds_become_a_posterior():
    values = {"mu": np.zeros((4, 50)), "theta": np.arange(4 * 50 * 6.0).reshape(4, 50, 2, 3)}
    result = sc.to_arviz(values)
    np.testing.assert_array_equal(result.posterior["theta"].values, values["theta"])
    assert list(az.summary(result, kind="stats").index)[:2] == ["mu", "theta[0, 0]"]
    one_chain = sc.to_arviz(np.zeros((20, 3)), modes=np.zeros(20))
    assert one_chain.posterior["x"].shape == (1, 20, 3)


def test_a_picture_coloured_by_mode(idata):
    import matplotlib

    matplotlib.use("Agg")
    result = sc.to_arviz(idata, modes=np.repeat([0, 1], 100))
    in_mode_1 = result.posterior.where(result.sample_stats["mode"] == 1)
    assert int(in_mode_1["mu"].notnull().sum()) == 100
    az.plot_posterior(result, var_names=["mu"])


def test_bad_values(idata):
    with pytest.raises(ValueError, match=r"`modes` must have one value per draw \(200\), got 3"):
        sc.to_arviz(idata, modes=[0, 1, 2])
    with pytest.raises(ValueError, match="`weights` must be finite and not negative"):
        sc.to_arviz(idata, weights=-np.ones(200))
    with pytest.raises(ValueError, match=r"chains of one length, got lengths \[5, 4\]"):
        sc.to_arviz([np.zeros((5, 2)), np.zeros((4, 2))])
