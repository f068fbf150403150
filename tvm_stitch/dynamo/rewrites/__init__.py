"""What is changed in graphs before they are cut into parts."""
