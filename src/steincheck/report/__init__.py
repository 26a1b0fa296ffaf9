"""A verdict as one self-contained HTML page: no script, no network request, light, dark and on paper."""

from .page import write_html

__all__ = ["write_html"]


def __dir__() -> list[str]:
    return __all__
