"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DrawsFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="DRAWS",
        help="The sample, one draw per row; several files are several chains: .csv (with or without a line "
        "of names, CmdStan's too), .npy, .npz, .parquet or .nc (ArviZ).",
    ),
]
TargetSpec = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="FILE.py:NAME",
        help="The density: a steincheck.Target (or a function without arguments that returns one) called "
        "NAME in FILE.py. The file is your own code and is run as such: pass only files you trust.",
    ),
]
Stan = Annotated[Path | None, typer.Option(metavar="MODEL.stan", help="The density: a Stan program.")]
PyMC = Annotated[
    str | None, typer.Option("--pymc", metavar="FILE.py:NAME", help="The density: a PyMC model.")
]
NumPyro = Annotated[
    str | None, typer.Option("--numpyro", metavar="FILE.py:NAME", help="The density: a NumPyro model.")
]
Data = Annotated[
    Path | None, typer.Option(metavar="DATA.json", help="Data of the Stan program or arguments of the model.")
]
Alpha = Annotated[float, typer.Option(help="Level: the probability of a false alarm you accept.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed, for reproducible results.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write the outcome as JSON.")]
Report = Annotated[Path | None, typer.Option(metavar="OUT.html", help="Write a report, one HTML page.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing; the exit status is the answer.")]
Bounds = Annotated[
    str | None,
    typer.Option(
        metavar="LOW,HIGH[;LOW,HIGH...]",
        help="A box also searched for modes: one pair for all coordinates or one per coordinate. Optional.",
    ),
]
ModesFile = Annotated[
    Path | None,
    typer.Option(
        "--modes",
        metavar="FILE",
        help="The modes, instead of a search: JSON that steincheck modes --json wrote, or locations, one per "
        "row, in a file like DRAWS.",
    ),
]
Independent = Annotated[
    bool, typer.Option("--independent", help="The draws are independent, whatever their order suggests.")
]
MaxEvaluations = Annotated[
    int | None, typer.Option(min=1, help="Stop the mode search after this many evaluations of the density.")
]
Resamples = Annotated[
    int | None, typer.Option("--n-resamples", min=1, help="Replicates of a simulated null distribution.")
]
Key = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which array to read if the .npz file has several.")
]
