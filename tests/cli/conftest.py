"""The workspace, for every test of the command line."""

from tests.cli.workspace import funded as funded
from tests.cli.workspace import workspace as workspace
