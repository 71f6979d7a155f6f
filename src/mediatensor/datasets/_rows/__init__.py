"""How a row becomes a sample: recipes, open files, the policy for errors, and the way of tensors between processes."""
