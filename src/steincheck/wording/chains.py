"""How large a sample chains amount to and how they differ, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._validation import listed
from ..chains.blocks import Blocks
from ..chains.diagnostics import Convergence
from ..result import AgreementResult, Finding, FluxResult, GofResult

MAX_RHAT = 1.1  # beyond, chains are commonly held not to have mixed


def agreement_finding(result: AgreementResult, pvalue: float) -> Finding:
    """Which chain differs, or that the beginnings do."""
    if result.starts_differ:
        text = "The beginnings of the chains differ from the rest: leave out more draws as warm-up"
    else:
        text = f"Chain {result.odd_chain} differs from the others: inspect it and its starting point"
    return Finding.without_size("chains", None, pvalue, text)


def effective_size(blocks: Blocks, weights: GofResult | None) -> str:
    """The effective sample size of the chains."""
    n = len(blocks.label)
    text = (
        f"The effective sample size of the {n} tested draws is about {blocks.effective_sample_size:.0f} for "
        f"the shape (autocorrelation time {blocks.autocorrelation_time:.3g}; {blocks.n_blocks} blocks were "
        "compared)"
    )
    if isinstance(weights, FluxResult) and weights.chains is not None:
        chains = weights.chains
        if chains.stuck:
            return f"{text}; they never change mode, so the mode shares are those of the starting points."
        changes = f"{chains.n_changes} change{'s' if chains.n_changes > 1 else ''} of mode"
        if np.isnan(weights.pvalue):
            return f"{text}, but too few for the mode weights ({changes})."
        text += f" and about {chains.effective_sample_size:.0f} for the mode weights ({changes})"
    return text + "."


def chain_shares(weights: GofResult | None) -> list[str]:
    """Shares of the modes per chain: which chain is alone at a mode, or how the shares differ.

    Nothing if there is one chain only, or no test of the weights.
    """
    chains = weights.chains if isinstance(weights, FluxResult) else None
    if chains is None or chains.n_chains == 1:
        return []
    shares = chains.shares
    homes = np.argmax(shares, axis=1)
    if (shares.max(axis=1) > 0.99).all() and len(np.unique(homes)) == 1:
        return []
    if (shares.max(axis=1) > 0.99).all():  # every chain stays at one mode
        return [f"The chains hardly ever change mode: {_homes(homes)}."]
    n_chains, n_modes = shares.shape
    if n_chains > 8 or n_modes > 4:
        k = int(np.argmax(np.ptp(shares, axis=0)))
        low, high = shares[:, k].min(), shares[:, k].max()
        return [f"The share of mode {k} ranges from {low:.0%} to {high:.0%} across chains."]
    rows = [" / ".join(f"{share:.0%}" for share in row) for row in shares]
    each = "; ".join(f"chain {c}: {row}" for c, row in enumerate(rows))
    modes = words_listed([str(k) for k in range(n_modes)])
    return [f"Shares of modes {modes} per chain: {each}."]


def _homes(home: np.ndarray) -> str:
    """Which chains stay at which mode."""
    clauses = []
    for k in np.unique(home):
        members = [str(c) for c in np.flatnonzero(home == k)]
        if len(members) == 1:
            clauses.append(f"chain {members[0]} is alone at mode {k}")
        else:
            clauses.append(f"chains {words_listed(members)} stay at mode {k}")
    return ", ".join(clauses)


def words_listed(words: Sequence[str]) -> str:
    """The words with commas and "and", at most ten of them."""
    if len(words) > 10:
        return listed(words)
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def mixing_warnings(convergence: Convergence, names: Sequence[str]) -> list[str]:
    """A sentence about the parameter with the largest R-hat, if that is too large."""
    rhat = np.nan_to_num(convergence.rhat, nan=1.0)
    k = int(np.argmax(rhat))
    if not rhat[k] > MAX_RHAT:
        return []
    return [f"R-hat of {names[k]} is {rhat[k]:.2f}: the chains have not mixed or are not yet stationary"]


def chain_context(chain: np.ndarray, convergence: Convergence) -> str:
    """How the draws were treated, with what is commonly reported of chains."""
    lengths = np.bincount(chain)
    equal = f"{len(lengths)} x {lengths[0]} draws" if np.ptp(lengths) == 0 else f"{len(chain)} draws"
    chains = "one chain" if len(lengths) == 1 else f"{len(lengths)} chains"
    treated = (
        f"The {equal} were tested as {chains}: H0 is that they are stationary with the density as their "
        "distribution."
    )
    if not np.isfinite(convergence.rhat).all():  # chains of a few draws have none
        return treated
    return (
        f"{treated} Over all coordinates bulk ESS is at least {np.min(convergence.ess_bulk):.0f}, tail ESS "
        f"{np.min(convergence.ess_tail):.0f}, R-hat at most {np.max(convergence.rhat):.3f}."
    )
