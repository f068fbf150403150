"""What reads and writes where indices say that are known when a graph is compiled."""
