import pytest
from matplotlib import pyplot as plt

import steincheck as sc


@pytest.fixture(scope="module")
def target():
    return sc.models.gaussian_mixture([[-3.0], [3.0]])


@pytest.fixture(autouse=True)
def _draw_and_close_figures():
    """Everything on the figures can be drawn, labels with odd characters included."""
    plt.switch_backend("agg")
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")
