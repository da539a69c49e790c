"""Authentication: passwords, invitations, OpenID Connect, JupyterHub, and revocable logins."""
