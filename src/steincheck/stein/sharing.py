"""Work shared out among the workers of joblib's active backend: processes, Dask or Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MAX_ATTEMPTS = 3  # at parts whose worker was lost


def n_workers() -> int:
    """How many workers the user has asked joblib for by ``joblib.parallel_config``; 1 without it.

    A user who has not imported joblib has not asked for any.
    """
    joblib = sys.modules.get("joblib")
    return 1 if joblib is None else int(joblib.effective_n_jobs(None))


def share_out(
    function: Callable[..., Any], calls: Callable[[int], tuple[Any, ...]], numbers: Sequence[int]
) -> Iterator[tuple[int, Any]]:
    """(k, function(*calls(k))) for all `numbers` k, in the order in which they are ready.

    Arrays among the arguments that several calls have in common travel once per worker. If a worker is lost,
    what it has not sent back is computed again by the others.
    """
    from joblib import Parallel, delayed

    missing = set(numbers)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        run = Parallel(return_as="generator_unordered", batch_size=1)
        try:
            for k, value in run(delayed(_numbered)(k, function, *calls(k)) for k in sorted(missing)):
                missing.remove(k)
                yield k, value
        except Exception:  # each backend has its own errors for a lost worker
            if attempt == MAX_ATTEMPTS:
                raise
        if not missing:
            return


def _numbered(k: int, function: Callable[..., Any], *arguments: Any) -> tuple[int, Any]:
    return k, function(*arguments)
