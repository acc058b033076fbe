"""Many images on one network: certified accuracy of a data set, and the largest radius of one image."""
