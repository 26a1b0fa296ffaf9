"""Features of the target's coordinates, expressed in the user's own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..result import MomentFeature, MomentResult
from ..target import Target
from ..target.parameter_scale import ParameterScale, parameter_scales


def in_user_parameters(result: MomentResult, target: Target) -> MomentResult:
    """The result with "sigma" on the scale "log" where its features say "log sigma"."""
    known = parameter_scales(target)
    if all(scale.parameter == name for name, scale in known.items()):
        return result
    return replace(result, features=tuple(_renamed(feature, known) for feature in result.features))


def _renamed(feature: MomentFeature, known: Mapping[str, ParameterScale]) -> MomentFeature:
    """One feature with the names of the parameters; coordinates that show none keep their names."""
    found = [known.get(name, ParameterScale(name, 0, "")) for name in feature.parameters]
    scales = tuple(item.scale for item in found)
    return replace(
        feature, parameters=tuple(item.parameter for item in found), scales=scales if any(scales) else ()
    )
