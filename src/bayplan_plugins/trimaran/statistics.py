"""Means and deviations of loads, and the beta distribution that fits them.

Mirrors pkg/trimaran/resourcestats.go, and pkg/trimaran/lowriskovercommitment/beta.go with the functions of gonum that
it calls. All functions take arrays.
"""

from __future__ import annotations

import math

import numpy as np

from bayplan_plugins.go_arithmetic import Floats

MEBI = 1 / 1024 / 1024
"""Upstream counts memory in MiB."""
_TINY = 1e-300
_STEPS = 5000
_ENOUGH = 1e-10
_SHIFT = 8
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def mean_and_deviation(average: Floats, deviation: Floats, requested: float, capacity: Floats) -> tuple[Floats, Floats]:
    """Return the mean load with a pod and its deviation, as fractions of the capacity, from 0 to 1."""
    there = capacity > 0
    whole = np.where(there, capacity, 1.0)
    mean, spread = np.clip((average + requested) / whole, 0, 1), np.clip(deviation / whole, 0, 1)
    return np.where(there, mean, 0.0), np.where(there, spread, 0.0)


def max_variance(mean: Floats) -> Floats:
    """Return the variance that a distribution from 0 to 1 with this mean can't reach."""
    return np.where((mean > 0) & (mean < 1), mean * (1 - mean), 0.0)


def fitted(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the parameters alpha and beta of the distribution with these moments; NaN where there is none."""
    possible = (mean >= 0) & (mean <= 1) & (variance > 0) & (variance < mean * (1 - mean))
    scale = np.where(possible, mean * (1 - mean) / np.where(possible, variance, 1.0) - 1, np.nan)
    scale = np.maximum(scale, 5e-324)
    return mean * scale, (1 - mean) * scale


def beta_probability(x: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return the probability of at most `x` in a beta distribution; 0 for one that isn't valid.

    This is the regularized incomplete beta function, by its continued fraction.
    """
    x, alpha, beta = np.broadcast_arrays(x, alpha, beta)
    valid = (alpha > 0) & (beta > 0) & (x >= 0) & (x <= 1)
    inside = valid & (x > 0) & (x < 1)
    result = np.where(valid & (x == 1), 1.0, 0.0)
    if inside.any():
        x, alpha, beta = x[inside], alpha[inside], beta[inside]
        above = x > (alpha + 1) / (alpha + beta + 2)  # there, the fraction of the rest converges faster
        x, alpha, beta = np.where(above, 1 - x, x), np.where(above, beta, alpha), np.where(above, alpha, beta)
        front = (
            alpha * np.log(x) + beta * np.log1p(-x) - (_log_gamma(alpha) + _log_gamma(beta) - _log_gamma(alpha + beta))
        )
        found = np.exp(front) * _fraction(x, alpha, beta) / alpha
        found = np.where(above, 1 - found, found)
        result[inside] = np.where((found >= 0) & (found <= 1), found, np.clip(np.nan_to_num(found), 0, 1))
    return result


def beta_probability_at(x: float, alpha: float, beta: float) -> float:
    """Return `beta_probability` of single numbers, which takes a tenth of the time."""
    if not (alpha > 0 and beta > 0 and 0 < x < 1):
        return float(alpha > 0 and beta > 0 and x == 1)
    above = x > (alpha + 1) / (alpha + beta + 2)
    if above:
        x, alpha, beta = 1 - x, beta, alpha
    both = alpha + beta
    front = alpha * math.log(x) + beta * math.log1p(-x) - math.lgamma(alpha) - math.lgamma(beta) + math.lgamma(both)
    c, d = 1.0, 1 / (1 - both * x / (alpha + 1) or _TINY)
    result = d
    for step in range(1, _STEPS):
        place = alpha + 2 * step
        even = step * (beta - step) * x / ((place - 1) * place)
        d, c = 1 / (1 + even * d or _TINY), 1 + even / c or _TINY
        odd = -(alpha + step) * (both + step) * x / (place * (place + 1))
        last = c * d
        d, c = 1 / (1 + odd * d or _TINY), 1 + odd / c or _TINY
        change = c * d
        result *= last * change
        if abs(change - 1) < _ENOUGH:
            break
    found = math.exp(front) * result / alpha
    return min(max(1 - found if above else found, 0.0), 1.0)


def _fraction(x: Floats, alpha: Floats, beta: Floats) -> Floats:
    """The continued fraction, by Lentz's method."""
    c = np.ones_like(x)
    d = 1 / _not_zero(1 - (alpha + beta) * x / (alpha + 1))
    result = d.copy()
    for step in range(1, _STEPS):
        double = 2 * step
        even = step * (beta - step) * x / ((alpha + double - 1) * (alpha + double))
        d, c = 1 / _not_zero(1 + even * d), _not_zero(1 + even / c)
        result *= d * c
        odd = -(alpha + step) * (alpha + beta + step) * x / ((alpha + double) * (alpha + double + 1))
        d, c = 1 / _not_zero(1 + odd * d), _not_zero(1 + odd / c)
        result *= d * c
        if (np.abs(d * c - 1) < _ENOUGH).all():
            break
    return result


def _not_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < _TINY, _TINY, values)


def _log_gamma(values: Floats) -> Floats:
    """The logarithm of the gamma function of positive numbers, by Stirling's series."""
    small = values < _SHIFT
    product = np.ones_like(values)
    for step in range(_SHIFT):
        product *= np.where(small, values + step, 1.0)
    shifted = np.where(small, values + _SHIFT, values)
    inverse = 1 / shifted
    series = sum(coefficient * inverse ** (2 * index + 1) for index, coefficient in enumerate(_STIRLING))
    result: Floats = (shifted - 0.5) * np.log(shifted) - shifted + 0.5 * np.log(2 * np.pi) + series - np.log(product)
    return result
