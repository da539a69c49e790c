"""What a team keeps: people, plans by their digest, rooms, jobs. One database, SQLite or PostgreSQL."""
