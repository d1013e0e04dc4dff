"""What every story stands on: tables of what was worked out once, and the writing of source. It imports nothing of nbgrad."""
