"""The programs whose predictions are held against compilers: those of our own zoo (`zoo`), and those of other people (`third_party`)."""
