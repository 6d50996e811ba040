"""IR graphs as files: pictures now; the GE protobuf formats come later."""
