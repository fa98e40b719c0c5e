// TCP between the processes of one launch.
#pragma once

#include <chrono>
#include <string>

#include "core/base/file.h"

namespace memtune::launch {

// A socket that listens: of this machine alone, or at all of its addresses.
class Listener {
 public:
  // `port` 0: one that is free. IoError, naming the port.
  Listener(bool loopback_only, int port);
  int port() const { return port_; }
  int descriptor() const { return socket_.get(); }
  // Nobody came within `patience`: a descriptor of -1.
  Descriptor accept(std::chrono::milliseconds patience) const;

 private:
  Descriptor socket_;
  int port_ = 0;
};

// Tries again until somebody listens there; -1 within `patience` by nobody. UsageError for a name that is unknown all
// that time.
Descriptor connect(const std::string& host, int port, std::chrono::milliseconds patience);

// Of this machine, numeric, that it would speak to `host` from; "": not known.
std::string address_towards(const std::string& host, int port);
// Numeric; "" where the socket is not connected.
std::string own_address(int socket);
std::string peer_address(int socket);
bool is_loopback(const std::string& address);  // "127.0.1.1", "::1", "localhost"

// Poll's events, of which one is there within `patience`.
bool become_ready(int socket, short events, std::chrono::milliseconds patience);

std::string host_name();

}  // namespace memtune::launch
