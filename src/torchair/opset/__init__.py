"""The Ascend IR operator set: one place for each operator, with its signature and its meaning in torch functions."""
