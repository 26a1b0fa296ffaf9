"""A density known up to a constant: its record, its evaluation, and checks of both."""

from ..wording.draws import NO_SCORE
from .checks import Discontinuity, check_score, discontinuity, score_warnings, support_warnings
from .compiled import BATCH_SIZES, from_jax, in_chunks, jax_target, trace
from .evaluation import log_density_anywhere, log_density_at, raw_score, score_anywhere, score_at
from .record import (
    MAX_DIM,
    Batch,
    ParameterScale,
    Target,
    coordinate_names,
    made_by,
    parameter_scales,
    probe_points,
    require_target,
    scale_of,
    to_constrained,
)
