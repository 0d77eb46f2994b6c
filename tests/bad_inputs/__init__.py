"""Whatever can be typed wrongly, and what the command answers: lists of inputs (`*.txt`), and what runs them."""
