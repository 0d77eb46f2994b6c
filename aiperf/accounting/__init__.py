"""Work and time added up from a journal, exactly: the score, its interval, and where the time went."""
