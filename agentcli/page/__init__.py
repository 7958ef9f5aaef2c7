"""A session as one page of HTML that needs nothing else: no network, and no script to be read."""
