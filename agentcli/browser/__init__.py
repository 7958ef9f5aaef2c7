"""A browser of the session's own: Chromium in a sandbox, driven through Playwright."""
