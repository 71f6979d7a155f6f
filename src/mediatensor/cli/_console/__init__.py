"""What all commands share: the values of options, what goes to the terminal, and how numbers are put into words."""
