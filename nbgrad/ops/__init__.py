"""What each op is: one stanza, forward and rule together, one file a family."""
