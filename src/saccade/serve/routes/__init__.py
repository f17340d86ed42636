"""What can be asked, a file for each shape of API. Each gives a router for some models."""
