"""Three posteriors, each written for NumPyro, PyMC, Stan and PyTorch.

`schools`: eight schools, non-centred. `mixture`: two normal components with exchangeable labels.
`regression`: an ordinal response on three predictors with relative weights (simplex) and ordered cutpoints.
"""

import numpy as np

SCHOOLS = {
    "J": 8,
    "y": np.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
    "sigma": np.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
}
SIDES = np.random.default_rng(1).random(60) < 0.5
MIXTURE = {"N": 60, "y": np.where(SIDES, -2.0, 2.0) + np.random.default_rng(2).normal(size=60)}
X = np.random.default_rng(3).normal(size=(50, 3))
RESPONSE = np.searchsorted([-1.0, 0.0, 1.5], X @ [1.2, 0.6, 0.2] + np.random.default_rng(4).logistic(size=50))
REGRESSION = {"N": 50, "X": X, "y": RESPONSE + 1}
DATA = {"schools": SCHOOLS, "mixture": MIXTURE, "regression": REGRESSION}

STAN = {
    "schools": """
data { int<lower=0> J; vector[J] y; vector<lower=0>[J] sigma; }
parameters { real mu; real<lower=0> tau; vector[J] theta_trans; }
transformed parameters { vector[J] theta = mu + tau * theta_trans; }
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  theta_trans ~ std_normal();
  y ~ normal(theta, sigma);
}
""",
    "mixture": """
data { int<lower=0> N; vector[N] y; }
parameters { vector[2] mu; real<lower=0> sigma; real<lower=0, upper=1> p; }
model {
  mu ~ normal(0, 5);
  sigma ~ normal(0, 2);
  p ~ beta(5, 5);
  for (n in 1:N)
    target += log_mix(p, normal_lpdf(y[n] | mu[1], sigma), normal_lpdf(y[n] | mu[2], sigma));
}
""",
    "regression": """
data { int<lower=0> N; matrix[N, 3] X; array[N] int<lower=1, upper=4> y; }
parameters { real b; simplex[3] w; ordered[3] cut; }
model {
  b ~ normal(0, 2);
  w ~ dirichlet(rep_vector(2, 3));
  cut ~ normal(0, 3);
  y ~ ordered_logistic(b * (X * w), cut);
}
""",
}


def numpyro_model(name):
    """Model and its arguments."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def schools(y, sigma):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            trans = numpyro.sample("theta_trans", dist.Normal(0, 1))
            theta = numpyro.deterministic("theta", mu + tau * trans)
            numpyro.sample("y", dist.Normal(theta, sigma), obs=y)

    def mixture(y):
        mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(2))
        p = numpyro.sample("p", dist.Beta(5, 5))
        parts = dist.Categorical(probs=jnp.stack([p, 1 - p]))
        numpyro.sample("y", dist.MixtureSameFamily(parts, dist.Normal(mu, sigma)).expand([60]), obs=y)

    def regression(x, y):
        b = numpyro.sample("b", dist.Normal(0, 2))
        w = numpyro.sample("w", dist.Dirichlet(2 * jnp.ones(3)))
        ordered = dist.constraints.ordered_vector
        cut = numpyro.sample("cut", dist.ImproperUniform(ordered, (), (3,)))
        numpyro.factor("prior", dist.Normal(0, 3).log_prob(cut).sum())
        numpyro.sample("y", dist.OrderedLogistic(b * (x @ w), cut), obs=y)

    return {
        "schools": (schools, (SCHOOLS["y"], SCHOOLS["sigma"])),
        "mixture": (mixture, (MIXTURE["y"],)),
        "regression": (regression, (X, RESPONSE)),
    }[name]


def pymc_model(name):
    import pymc as pm

    with pm.Model() as model:
        if name == "schools":
            mu = pm.Normal("mu", 0, 5)
            tau = pm.HalfCauchy("tau", 5)
            trans = pm.Normal("theta_trans", 0, 1, shape=8)
            theta = pm.Deterministic("theta", mu + tau * trans)
            pm.Normal("y", theta, SCHOOLS["sigma"], observed=SCHOOLS["y"])
        elif name == "mixture":
            mu = pm.Normal("mu", 0, 5, shape=2)
            sigma = pm.HalfNormal("sigma", 2)
            p = pm.Beta("p", 5, 5)
            pm.NormalMixture("y", w=pm.math.stack([p, 1 - p]), mu=mu, sigma=sigma, observed=MIXTURE["y"])
        else:
            b = pm.Normal("b", 0, 2)
            w = pm.Dirichlet("w", 2 * np.ones(3))
            ordered = pm.distributions.transforms.ordered
            cut = pm.Normal("cut", 0, 3, shape=3, transform=ordered, initval=[-1.0, 0, 1])
            pm.OrderedLogistic("y", eta=b * (X @ w), cutpoints=cut, observed=RESPONSE, compute_p=False)
    return model


def torch_log_density(name):
    """Log density of one point in Stan's coordinates, transformations and Jacobians by hand; and d."""
    import torch
    from torch.distributions import Beta, Dirichlet, HalfCauchy, HalfNormal, Normal

    def tensors(*arrays):
        return [torch.as_tensor(array, dtype=torch.float64) for array in arrays]

    def schools(u):
        y, sigma, five = tensors(SCHOOLS["y"], SCHOOLS["sigma"], 5.0)  # HalfCauchy casts to its scale's type
        mu, log_tau, trans = u[0], u[1], u[2:]
        tau = log_tau.exp()
        prior = Normal(0, 5).log_prob(mu) + HalfCauchy(five).log_prob(tau) + log_tau
        theta = mu + tau * trans
        return prior + Normal(0, 1).log_prob(trans).sum() + Normal(theta, sigma).log_prob(y).sum()

    def mixture(u):
        (y,) = tensors(MIXTURE["y"])
        mu, sigma, p = u[:2], u[2].exp(), u[3].sigmoid()
        prior = Normal(0, 5).log_prob(mu).sum() + HalfNormal(2.0).log_prob(sigma) + u[2]
        prior = prior + Beta(5.0, 5.0).log_prob(p) + p.log() + (1 - p).log()
        parts = Normal(mu, sigma).log_prob(y[:, None]) + torch.stack([p.log(), (1 - p).log()])
        return prior + parts.logsumexp(dim=1).sum()

    def regression(u):
        x, index = torch.as_tensor(X), torch.as_tensor(RESPONSE)[:, None]
        z0 = (u[1] - np.log(2)).sigmoid()
        z1 = u[2].sigmoid()
        w = torch.stack([z0, (1 - z0) * z1, (1 - z0) * (1 - z1)])
        jacobian = (z0 * (1 - z0)).log() + ((1 - z0) * z1 * (1 - z1)).log() + u[4] + u[5]
        cut = torch.cumsum(torch.cat([u[3:4], u[4:].exp()]), 0)
        prior = Normal(0, 2).log_prob(u[0]) + Normal(0, 3).log_prob(cut).sum()
        prior = prior + Dirichlet(2 * torch.ones(3, dtype=torch.float64)).log_prob(w)
        below = (cut - u[0] * (x @ w)[:, None]).sigmoid()
        below = torch.cat([torch.zeros(50, 1), below, torch.ones(50, 1)], dim=1)
        chance = below.gather(1, index + 1) - below.gather(1, index)
        return prior + jacobian + chance.log().sum()

    return {"schools": (schools, 10), "mixture": (mixture, 4), "regression": (regression, 6)}[name]
