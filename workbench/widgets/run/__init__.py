"""The Run and Compile panels, and the jobs behind them."""
