"""The server of a team: people, plans that are kept, rooms where several edit one plan, jobs on the devices of the team."""
