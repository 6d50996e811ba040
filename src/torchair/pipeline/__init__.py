"""The two modes as an order of stages."""
