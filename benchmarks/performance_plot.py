"""Plots how the time of a decision grows with the number of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

GROWTH = (100, 1000, 5000, 20_000, 50_000, 100_000)
"""Numbers of nodes."""
KINDS = {"plain": "#1f6feb", "affinity": "#bf3989", "spreading": "#1a7f37"}
"""Kinds of pods with their color in the plot."""


def growth_plot(growth: Mapping[str, Any]) -> str:
    """Return an SVG with logarithmic axes, and a line per kind of pod.

    `growth`: by number of nodes, the microseconds of a decision by kind.
    """
    width, height, left, bottom, top, right = 720, 400, 70, 350, 20, 610
    points = {
        kind: [(n, growth[str(n)][f"{kind}_us"]) for n in GROWTH if f"{kind}_us" in growth.get(str(n), {})]
        for kind in KINDS
    }
    values = [value for each in points.values() for _, value in each] or [100, 1000]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(nodes: float) -> float:
        span = math.log10(GROWTH[-1]) - math.log10(GROWTH[0])
        return left + (right - left) * (math.log10(nodes) - math.log10(GROWTH[0])) / span

    def y(value: float) -> float:
        return bottom - (bottom - top) * (math.log10(value) - low) / (high - low)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
        ' font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        for value in (10**power, 2 * 10**power, 5 * 10**power):
            if value <= 10**high:
                lines += [
                    f'<line x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>',
                    f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>',
                ]
    for nodes in GROWTH:
        lines += [
            f'<line x1="{x(nodes):.1f}" x2="{x(nodes):.1f}" y1="{top}" y2="{bottom}" stroke="#eee"/>',
            f'<text x="{x(nodes):.1f}" y="{bottom + 18}" text-anchor="middle">{nodes:,}</text>',
        ]
    lines += [
        f'<text x="{(left + right) / 2}" y="{height - 10}" text-anchor="middle">nodes</text>',
        f'<text transform="translate(16 {(top + bottom) / 2}) rotate(-90)" text-anchor="middle">µs per decision</text>',
    ]
    for kind, color in KINDS.items():
        path = " ".join(f"{x(nodes):.1f},{y(value):.1f}" for nodes, value in points[kind])
        lines += [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>']
        if points[kind]:
            lines += [f'<text x="{right + 8}" y="{y(points[kind][-1][1]) + 4:.1f}" fill="{color}">{kind}</text>']
    return "\n".join([*lines, "</svg>"]) + "\n"
