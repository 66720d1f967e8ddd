"""What `doctor` checks, one small file per group of checks, and `stats`."""
