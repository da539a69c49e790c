"""The start panel, and the strips of a board that change its model: what is sharded, and on which machines."""
