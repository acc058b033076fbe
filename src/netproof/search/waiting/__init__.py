"""Open sub-domains that wait on the host, where the device has no room for them."""
