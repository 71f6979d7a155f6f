"""Which rows make which batch, in which order, how far an epoch has come, and how a batch reaches its device."""
