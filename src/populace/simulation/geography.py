"""The made-up country: four regions, twelve counties, fifty areas; a code begins with its parent's."""

from __future__ import annotations

import numpy as np

from populace.simulation.portable_draws import Floats

REGION_SHARES = {"1": 0.174, "2": 0.208, "3": 0.381, "4": 0.237}
# Areas in each county. The third county of each region is rural.
AREAS_IN = {
    **{"11": 4, "12": 3, "13": 3},
    **{"21": 4, "22": 4, "23": 3},
    **{"31": 7, "32": 6, "33": 5},
    **{"41": 4, "42": 4, "43": 3},
}
AREAS = tuple(f"{county}{number:02}" for county, count in AREAS_IN.items() for number in range(1, count + 1))


def is_rural(code: str) -> bool:
    """Say whether a county or an area is rural.

    >>> is_rural("13"), is_rural("1102")
    (True, False)
    """
    return code[1] == "3"


def stratum_of(area: str) -> str:
    """Return the stratum an area is drawn from: its region, urban or rural.

    >>> stratum_of("1102"), stratum_of("4301")
    ('1U', '4R')
    """
    return area[0] + ("R" if is_rural(area) else "U")


def draw_areas(*, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return each area's share of the homes and how well off it is, in the order of `AREAS`.

    Areas differ in size and wealth; regions have their shares, rural areas are smaller and poorer.
    """
    rural = np.array([is_rural(area) for area in AREAS])
    size = (0.7 + 0.6 * rng.random(len(AREAS))) * np.where(rural, 0.8, 1.0)
    region = np.array([list(REGION_SHARES).index(area[0]) for area in AREAS])
    total = np.bincount(region, weights=size)
    share = size * (np.array(list(REGION_SHARES.values())) / total)[region]
    return share, np.clip(2.0 * rng.random(len(AREAS)) - np.where(rural, 1.3, 0.9), -1.0, 1.0)
