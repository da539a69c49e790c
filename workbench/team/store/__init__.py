"""The team's database, SQLite or PostgreSQL: users, plans, rooms and jobs."""
