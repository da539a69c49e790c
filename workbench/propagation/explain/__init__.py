"""Why a value has its sharding: where each mesh axis came from, step by step, and which axes it won against."""
