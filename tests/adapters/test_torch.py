import numpy as np
import pytest
import torch

import steincheck as sc
from steincheck.target import score_warnings

pytestmark = pytest.mark.adapters


def closed_form(x):
    return -0.5 * np.sum(x**2, axis=1) - x[:, 0] ** 4


def one_point(x):
    return -0.5 * (x**2).sum() - x[0] ** 4


def batch(x):
    return -0.5 * (x**2).sum(dim=1) - x[:, 0] ** 4


def with_a_branch(x):
    return -0.5 * (x**2).sum() - (x[0] ** 4 if x[0] > -1e9 else 0.0 * x[0])


@pytest.mark.parametrize("dim", [1, 3, 4])
@pytest.mark.parametrize("function", [one_point, batch, with_a_branch])
def test_one_point_or_a_batch(function, dim):
    target = sc.from_torch(function, dim)
    x = np.random.default_rng(0).normal(size=(5000, dim))[: 5000 if function is batch else 300]
    np.testing.assert_allclose(target.log_density(x), closed_form(x), rtol=1e-12)
    slope = -x
    slope[:, 0] -= 4 * x[:, 0] ** 3
    np.testing.assert_allclose(target.score(x), slope, rtol=1e-12)
    assert target.log_density(x[:0]).shape == (0,)
    assert target.score(x[:0]).shape == (0, dim)


class Flow(torch.nn.Module):
    """One affine layer and a bend: a small normalising flow with log_prob of batches."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.shift = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def log_prob(self, x):
        shift, log_scale = self.shift(x[:, :1]).unbind(dim=1)
        z = torch.stack([x[:, 0], (x[:, 1] - shift) * (-log_scale).exp()], dim=1)
        return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(dim=1) - log_scale


def test_a_normalising_flow():
    flow = Flow().double().eval()
    target = sc.from_torch(flow.log_prob, dim=2)
    x = np.random.default_rng(1).normal(size=(100, 2))
    score_warnings(target, x[:20])
    precise = target.score(x)
    with pytest.warns(UserWarning, match=r"torch.float32: precision is lost, module.double\(\) keeps it"):
        single = sc.from_torch(flow.float().log_prob, dim=2)
    np.testing.assert_allclose(single.score(x), precise, atol=1e-4)


def test_a_row_at_which_torch_raises_leaves_the_others_alone():
    def log_density(x):
        return torch.distributions.Normal(0.0, 1.0, validate_args=True).log_prob(x).sum(dim=1)

    target = sc.from_torch(log_density, dim=2)
    x = np.zeros((4, 2))
    x[1, 0] = np.nan
    assert np.isfinite(target.log_density(x)).tolist() == [True, False, True, True]
    assert np.isfinite(target.score(x)).all(axis=1).tolist() == [True, False, True, True]
    assert np.isneginf(target.log_density(np.full((3, 2), np.nan))).all()


def test_what_is_no_log_density():
    with pytest.raises(TypeError, match="`log_density` must be a function, got int"):
        sc.from_torch(3, dim=2)
    with pytest.raises(ValueError, match="`dim` must be a positive integer, got 0"):
        sc.from_torch(one_point, dim=0)
    with pytest.raises(ValueError, match=r"one point gives torch.Size\(\[2\]\)"):
        sc.from_torch(lambda x: -(x**2), dim=2)
