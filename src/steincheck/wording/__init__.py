"""Findings and verdicts as sentences."""

from .chains import agreement_finding, chain_context, chain_shares, effective_size, mixing_warnings
from .flux import share_context, weight_context, weight_reason
from .locations import mode_description, mode_descriptions
from .moments import (
    describe,
    describe_impossible,
    first_of_chains,
    moment_findings,
    shape_coordinates,
)
from .remedies import WEIGHT_KINDS, advice
from .verdicts import headline, shape_finding, unknown_misfit_finding

__all__ = [
    "WEIGHT_KINDS",
    "advice",
    "agreement_finding",
    "chain_context",
    "chain_shares",
    "describe",
    "describe_impossible",
    "effective_size",
    "first_of_chains",
    "headline",
    "mixing_warnings",
    "mode_description",
    "mode_descriptions",
    "moment_findings",
    "shape_coordinates",
    "shape_finding",
    "share_context",
    "unknown_misfit_finding",
    "weight_context",
    "weight_reason",
]
