"""What is changed in functional graphs of ATen's operators, however they were traced."""
