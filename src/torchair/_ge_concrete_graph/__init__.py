"""Paths inside upstream that user code imports; everything is defined elsewhere."""
