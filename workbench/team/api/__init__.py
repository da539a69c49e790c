"""The actions over HTTP, under /api/v1, and their description as an OpenAPI document."""
