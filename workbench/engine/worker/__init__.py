"""Jobs in separate processes: their payloads, reports and ends."""
