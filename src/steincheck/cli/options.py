"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NO_VALUE = ""  # of a switch: typer would show "<bool>"
DrawsFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="DRAWS",
        help="The sample, one draw per row: .csv, .tsv or .txt (with or without a line of names, CmdStan's "
        "too), .npy, .npz, .parquet or .nc (ArviZ). Several files are several chains, as are the values of a "
        "column called chain.",
    ),
]
TargetSpec = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="FILE.py:NAME",
        help="The density: a steincheck.Target called NAME in FILE.py, as target = "
        "steincheck.from_jax(log_density, dim=2), or a function without arguments that returns one. The file "
        "is run: pass only files you trust.",
    ),
]
Stan = Annotated[Path | None, typer.Option(metavar="MODEL.stan", help="The density: a Stan program.")]
PyMC = Annotated[
    str | None,
    typer.Option("--pymc", metavar="FILE.py:NAME", help="The density: a PyMC model called NAME in FILE.py."),
]
NumPyro = Annotated[
    str | None,
    typer.Option(
        "--numpyro", metavar="FILE.py:NAME", help="The density: a NumPyro model called NAME in FILE.py."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DATA.json", help="Data of the Stan program, or arguments of the NumPyro model, by name."
    ),
]
Alpha = Annotated[float, typer.Option(help="Level: the probability of a false alarm you accept.")]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed, for reproducible results; a new one by default.")
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="OUT.json", help="Write the outcome to this file, as JSON.")
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="OUT.html", help="Write a report with pictures to this file, one HTML page."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", metavar=NO_VALUE, help="Print nothing; the exit status is the answer.")
]
Silent = Annotated[bool, typer.Option("--quiet", metavar=NO_VALUE, help="Print nothing; files are written.")]
Bounds = Annotated[
    str | None,
    typer.Option(
        metavar="LOW,HIGH[;LOW,HIGH...]",
        help="A box to search for modes, too, in the coordinates of the target: one pair for all, or one per "
        "coordinate. Not needed.",
    ),
]
ModesFile = Annotated[
    Path | None,
    typer.Option(
        "--modes",
        metavar="FILE",
        help='The modes, instead of a search: JSON with "locations", and "covariances" if they are known, as '
        "steincheck modes --json writes it, or locations, one per row, in a file like DRAWS.",
    ),
]
Independent = Annotated[
    bool,
    typer.Option(
        "--independent", metavar=NO_VALUE, help="The draws are independent, whatever their order suggests."
    ),
]
MaxEvaluations = Annotated[
    int | None, typer.Option(min=1, help="Stop the mode search after this many evaluations of the density.")
]
Resamples = Annotated[
    int | None,
    typer.Option(
        "--n-resamples",
        min=1,
        help="Number of simulated values of the null distribution; the test's own by default.",
    ),
]
Key = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which array of DRAWS to read if an .npz file has several.")
]
