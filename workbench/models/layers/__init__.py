"""What several models of the zoo share: blocks, normalisation, losses, weights."""
