"""Who is who: passwords and invitations, OpenID Connect, JupyterHub, logins that can be revoked."""
