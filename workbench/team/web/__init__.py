"""Shared parts of pages and API: base handler, templates, security headers, health checks."""
