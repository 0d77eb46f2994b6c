"""What simulated runs are held to: laws, a shadow model of the journal, and what the workers truly did."""
