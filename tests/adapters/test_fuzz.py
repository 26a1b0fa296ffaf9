"""Bad input for the adapters, and draws in containers of other packages."""

from fuzz.packages import packages
from fuzz.runner import carry_out, single_changes


def test_each_bad_value_by_itself():
    functions = {*packages(), "as_draws", "median_bandwidth"}
    assert {"from_torch", "from_numpyro", "from_pymc", "from_stan", "to_arviz"} <= functions
    calls = [call for call in single_changes(0) if call.function in functions]
    assert sum("torch" in str(call) for call in calls) > 3
    faults = {str(call): fault for call in calls if (fault := carry_out(call))}
    assert not faults
