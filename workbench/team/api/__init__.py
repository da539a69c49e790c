"""The actions over HTTP under /api/v1, and their OpenAPI document."""
