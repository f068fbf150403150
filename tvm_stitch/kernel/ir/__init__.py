"""What a kernel is made of: stages, programs over rows and columns, schedules. No thread yet."""
