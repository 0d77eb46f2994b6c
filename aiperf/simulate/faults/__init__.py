"""What can go wrong in a simulated cluster: small classes, by whom they strike."""
