"""Client of a team server, without its packages, and without JAX until a plan is read or written."""

from workbench.team_client.client import connect as connect
