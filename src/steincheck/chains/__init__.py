"""Dependent draws: autocorrelation time, effective sample size, blocks, and what is wrong with the chains."""
