"""What can be seen of stages and programs before anything is mapped to threads."""
