"""What is changed in graphs as dynamo gives them, before AOTAutograd traces them to ATen."""
