"""Findings and verdicts as sentences."""

from .chains import agreement_finding, chain_context, chain_shares, effective_size, mixing_warnings
from .locations import mode_description, mode_descriptions
from .moments import describe_feature, shape_coordinates
from .remedies import WEIGHT_KINDS, advice
from .verdicts import headline, shape_finding, unknown_misfit_finding
from .weights import share_context, weight_context, weight_findings

__all__ = [
    "WEIGHT_KINDS",
    "advice",
    "agreement_finding",
    "chain_context",
    "chain_shares",
    "describe_feature",
    "effective_size",
    "headline",
    "mixing_warnings",
    "mode_description",
    "mode_descriptions",
    "shape_coordinates",
    "shape_finding",
    "share_context",
    "unknown_misfit_finding",
    "weight_context",
    "weight_findings",
]
