"""What the library says of its arguments, said of the options of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..result import Verdict

PARAMETERS = {  # of commands, for arguments of the library that have another name there
    "modes": "modes_file",
    "n_jobs": "jobs",
    "paths": "draws",
    "program": "stan",
    "rng": "seed",
    "sample": "sampler",
}
ARGUMENT = re.compile(r"`(?P<name>\w+)(?:=True)?`(?: = (?P<value>\d+))?")


def in_options(text: str, options: Mapping[str, str]) -> str:
    """The text with options for the arguments in backticks, where the command has them.

    Parameters
    ----------
    text : str
    options : mapping of str to str
        How the parameters of the command are typed: ``{"seed": "--seed", "draws": "DRAWS"}``.

    Examples
    --------
    >>> in_options("`rng` must be an int, or None", {"seed": "--seed", "draws": "DRAWS"})
    '--seed must be an int, or None'
    """

    def typed(match: re.Match[str]) -> str:
        option = options.get(PARAMETERS.get(match["name"], match["name"]))
        if option is None:
            return match[0]
        return f"{option} {match['value']}" if match["value"] else option

    return ARGUMENT.sub(typed, text)


def verdict_in_options(verdict: Verdict, options: Mapping[str, str]) -> Verdict:
    """The verdict with options in what may name arguments, for a report."""

    def typed(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(in_options(text, options) for text in texts)

    return replace(
        verdict,
        sentence=in_options(verdict.sentence, options),
        warnings=typed(verdict.warnings),
        context=typed(verdict.context),
        not_examined=typed(verdict.not_examined),
    )
