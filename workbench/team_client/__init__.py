"""A team's server from Python: `wb.connect("https://plans.example.org")`. It needs neither the server's packages nor, until a plan is asked
for, JAX."""

from workbench.team_client.client import connect as connect
