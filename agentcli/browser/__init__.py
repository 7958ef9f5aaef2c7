"""The session's own browser: Chromium in a sandbox, driven through Playwright."""
