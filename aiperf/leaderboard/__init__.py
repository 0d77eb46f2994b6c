"""Many runs as one list, by every metric."""
