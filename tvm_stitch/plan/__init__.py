"""Which operators become one kernel. Knows no TIR beyond what kernel/ tells it."""
