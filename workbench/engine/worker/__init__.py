"""Jobs in processes of their own: what they are sent, what they tell, how they end."""
