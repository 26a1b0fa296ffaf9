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
    "rng": "seed",
    "sample": "sampler",
}
PHRASES = {  # advice to write Python, which a file or an option needs in other words
    r"; it looks transposed, try \S+\.T\b": "; it looks transposed: save it with one draw per row",
    r"; one point is a row: .* for a single one": "; save it with one draw per row",
    r"give \S+\.swapaxes\(0, 1\)": "save it as (chain, draw, d)",
    r"give an array \(chain, draw, d\)": "give one file per chain, or an .npy file (chain, draw, d)",
    r"independent draws are an array \(n, d\)": "independent draws go into one file without chains",
    r"give target\.unconstrain\(\S+\), or the parameters by name": "name the parameters in a first line",
    r"as a tuple \(locations, covariances\)": 'in a JSON file with "locations" and "covariances"',
    r"; `var_names` selects": "; give the target `names` to select columns",
    r"(`draws`|`bounds`) or `starts`": r"\1",
    r"or pass check_score=False to go on regardless": "or go on regardless in Python, with check_score=False",
    r"see `steincheck\.plot\.pairs`": "see the pictures of --report",
    r"`model`": "the model",
    r"`program`": "the Stan program",
    r"(rows \[[\d, ]+\]|infinity, chain \d+, draw \d+(; chain \d+, draw \d+)*)": r"\1 (counted from 0)",
    r"(`[^`]*verdict\.[^`]*`)": r"in Python \1",
    r", verdict\.importance_weights,": ", in Python `verdict.importance_weights`,",
}


def in_options(text: str, options: Mapping[str, str]) -> str:
    """The text with options for arguments, where the command has them.

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
    for pattern, phrase in PHRASES.items():
        text = re.sub(pattern, phrase, text)

    def typed(match: re.Match[str]) -> str:
        name = match["quoted"] or match["bare"]
        option = options.get(PARAMETERS.get(name, name))
        if option is None:
            return match[0]
        return f"{option} {match['value']}" if match["value"] else option

    value = r"(?: = (?P<value>\d+))?"
    quoted = r"`(?P<quoted>\w+)(?:=True)?`"
    bare = r"(?<![\w`.-])(?P<bare>[a-z]+_[a-z]+)(?![\w`.(])"  # no word of English has an underscore
    return re.sub(f"(?:{quoted}|{bare}){value}", typed, text)


def verdict_in_options(verdict: Verdict, options: Mapping[str, str]) -> Verdict:
    """The verdict with its sentences reworded, for a report."""

    def reworded(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(in_options(text, options) for text in texts)

    return replace(
        verdict,
        sentence=in_options(verdict.sentence, options),
        findings=tuple(replace(item, text=in_options(item.text, options)) for item in verdict.findings),
        warnings=reworded(verdict.warnings),
        advice=reworded(verdict.advice),
        context=reworded(verdict.context),
        not_examined=reworded(verdict.not_examined),
    )
