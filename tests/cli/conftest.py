"""The desk, for every test of the command line."""

from .desk import desk as desk
from .desk import funded as funded
