"""How the agent inspects and guards repositories, without running anything of theirs."""
