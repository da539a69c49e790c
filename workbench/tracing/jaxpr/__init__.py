"""Reading and rewriting jaxprs: equations, inlined calls, outlined and recomputed layers."""
