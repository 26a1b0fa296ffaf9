"""The paper's figures and tables, one module each; run them with ``python -m experiments FIGURE``.

A figure module offers ``cells(repetitions, quick)``, ``run(cell, methods) -> rows`` and ``figure(rows)``. A
cell is one repetition of one setting: all methods see the same sample, and all its random numbers come from
seeds made of the figure's name, the setting and the repetition, so that results do not depend on who computes
what when.
"""
