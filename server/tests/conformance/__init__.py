"""What every broker must do the same: scenarios over real sockets, with the application and its database around."""
