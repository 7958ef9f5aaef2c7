"""Pages of the network: which addresses may be reached, and what is fetched made readable."""
