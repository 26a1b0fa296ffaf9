"""A density known up to a constant: its record, its evaluation, and checks of both."""

from ..wording.draws import NO_SCORE
from .checks import Discontinuity, discontinuity, score_warnings, support_warnings
from .evaluation import log_density_anywhere, log_density_at, score_at
from .record import Batch, Target, from_jax, require_target, to_constrained
