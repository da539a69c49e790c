"""Where the compilers of accelerators part ways with the partitioner's neutral answer: small rewrites over the collectives it made."""
