// TCP sockets for the processes of one launch.
#pragma once

#include <chrono>
#include <string>

#include "core/base/file.h"

namespace memtune::launch {

// Listening socket, either on loopback only or on all addresses of this machine.
class TcpListener {
 public:
  // `port` 0: the system picks a free one. Throws IoError with the port number.
  TcpListener(bool loopback_only, int port);
  int port() const { return port_; }
  int descriptor() const { return socket_.get(); }
  // Returns a descriptor of -1 if no connection arrives within `timeout`.
  FileDescriptor accept(std::chrono::milliseconds timeout) const;

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

// Listens at a name among this machine's processes (an abstract Unix-domain socket). Throws IoError with the name.
FileDescriptor listen_here(const std::string& name);

// Retries until a process of this user listens at `name`. Returns a descriptor of -1 after `timeout`.
FileDescriptor connect_here(const std::string& name, std::chrono::milliseconds timeout);

// Returns a descriptor of -1 if there is no connection to accept, or it has already gone. Does not wait.
FileDescriptor accept_now(int listener);

// True if the other end of this Unix-domain socket is a process of the same user. The kernel vouches for it.
bool is_of_this_user(int socket);

// Retries until a process listens there. Returns a descriptor of -1 after `timeout`. Throws UsageError if the host
// name cannot be resolved in that time.
FileDescriptor connect(const std::string& host, int port, std::chrono::milliseconds timeout);

// The local address from which this machine would connect to `host`, numeric; "" if unknown.
std::string address_towards(const std::string& host, int port);
// Addresses of the two ends of a connection, numeric; "" if the socket is not connected.
std::string local_address(int socket);
std::string peer_address(int socket);
bool is_loopback(const std::string& address);  // e.g. "127.0.1.1", "::1", "localhost"

// Waits until one of `events` (as in poll) is ready. Returns false after `timeout`.
bool wait_until_ready(int socket, short events, std::chrono::milliseconds timeout);

// "?" if unknown.
std::string host_name();

}  // namespace memtune::launch
