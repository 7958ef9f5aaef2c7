"""What an action must pass before it runs: rules, hard blocks, ratings of risk."""
