"""The page of an explained message: the path as a timeline, the message as a tree, and the figures behind them."""
