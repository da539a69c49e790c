"""Why a value lies as it does: where each mesh axis came from, step by step, and what it won against."""
