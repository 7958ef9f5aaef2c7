"""Children: sessions that carry out what another one delegates."""
