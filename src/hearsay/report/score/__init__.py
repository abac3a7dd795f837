"""The page of a check of scores: curves of scripted peers, findings, and the figures behind them."""
