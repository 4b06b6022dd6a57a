"""The schema of the simulated population and of its survey: `population.toml`, beside this file."""

from __future__ import annotations

import tomllib
from pathlib import Path

POPULATION_SCHEMA = Path(__file__).with_name("population.toml").read_text(encoding="utf-8")
LABOUR_FORCE: dict[str, str] = tomllib.loads(POPULATION_SCHEMA)["columns"]["labour_force"]["map"]
