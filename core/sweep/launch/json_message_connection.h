// Message connection between two processes of one launch: one JSON object per line.
#pragma once

#include <chrono>
#include <cstddef>
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

class JsonMessageConnection {
 public:
  // `socket`: connected and non-blocking. `timeout`: timeout of send().
  JsonMessageConnection(FileDescriptor socket, std::chrono::milliseconds timeout);

  void send(const nlohmann::json& message);  // throws PeerLostError
  // Returns false if no complete message has arrived yet. Does not block. Throws PeerLostError if the connection is
  // lost and all messages were received.
  bool receive(nlohmann::json& message);
  // Waits for a message up to `timeout`; otherwise as above.
  bool receive(nlohmann::json& message, std::chrono::milliseconds timeout);

  void set_longest(size_t bytes) { longest_ = bytes; }       // a longer message is an error of the peer
  size_t received_bytes() const { return received_bytes_; }  // of the last message

  bool is_writable() const;  // true if send() would not block now
  int socket() const { return socket_.get(); }

 private:
  void take();
  bool next(nlohmann::json& message);

  FileDescriptor socket_;
  std::chrono::milliseconds timeout_;
  size_t longest_ = size_t{64} << 20, received_bytes_ = 0;
  std::string buffer_;
  std::deque<std::string> lines_;
  std::string lost_;  // the reason; "" while connected
};

}  // namespace memtune::launch
