"""Findings and verdicts as sentences."""

from .advice import advice
from .chains import agreement_finding, chain_shares, chain_worth
from .moments import describe, describe_impossible, moment_findings
from .places import place, places
from .verdicts import headline, kernel_finding, render
from .weights import weight_context, weight_findings

__all__ = [
    "advice",
    "agreement_finding",
    "chain_shares",
    "chain_worth",
    "describe",
    "describe_impossible",
    "headline",
    "kernel_finding",
    "moment_findings",
    "place",
    "places",
    "render",
    "weight_context",
    "weight_findings",
]
