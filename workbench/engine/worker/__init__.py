"""Jobs in processes of their own: what they are sent, what they report, how they end."""
