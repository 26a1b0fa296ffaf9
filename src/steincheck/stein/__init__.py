"""Stein discrepancies: kernels, the streaming engine over tiles of the Stein matrix, bootstraps."""
