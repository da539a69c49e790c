"""What all pages and answers of the server share: the handler they begin with, templates, security headers, health."""
