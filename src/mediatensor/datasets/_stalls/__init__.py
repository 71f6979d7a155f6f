"""Whether a training loop waits for its input, and what to change if it does."""
