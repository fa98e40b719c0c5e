// Message connection between two processes of one launch: one JSON object per line, over TCP.
#pragma once

#include <chrono>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::launch {

// The peer closed the connection, sent something invalid, or accepted no data until the timeout.
class PeerLostError : public Error {
 public:
  using Error::Error;
};

class Connection {
 public:
  // `socket`: connected and non-blocking. `timeout`: timeout of send().
  Connection(FileDescriptor socket, std::chrono::milliseconds timeout);

  void send(const nlohmann::json& message);  // throws PeerLostError
  // Returns false if no complete message has arrived yet. Does not block. Throws PeerLostError if the connection is
  // lost and all messages were received.
  bool receive(nlohmann::json& message);
  // Waits for a message up to `timeout`; otherwise as above.
  bool receive(nlohmann::json& message, std::chrono::milliseconds timeout);

  bool is_writable() const;  // true if send() would not block now
  int socket() const { return socket_.get(); }

 private:
  void take();
  bool next(nlohmann::json& message);

  FileDescriptor socket_;
  std::chrono::milliseconds timeout_;
  std::string buffer_;
  std::deque<std::string> lines_;
  std::string lost_;  // the reason; "" while connected
};

}  // namespace memtune::launch
