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
class PeerLost : public Error {
 public:
  using Error::Error;
};

class Connection {
 public:
  // `socket`: connected and non-blocking. `patience`: timeout of send().
  Connection(Descriptor socket, std::chrono::milliseconds patience);

  void send(const nlohmann::json& message);  // throws PeerLost
  // Returns false if no complete message has arrived yet. Does not block. Throws PeerLost if the connection is lost and
  // all messages were received.
  bool receive(nlohmann::json& message);
  // Waits for a message up to `patience`; otherwise as above.
  bool receive(nlohmann::json& message, std::chrono::milliseconds patience);

  bool takes_more() const;  // true if send() would not block now
  int socket() const { return socket_.get(); }

 private:
  void take();
  bool next(nlohmann::json& message);

  Descriptor socket_;
  std::chrono::milliseconds patience_;
  std::string buffer_;
  std::deque<std::string> lines_;
  std::string lost_;  // the reason; "" while connected
};

}  // namespace memtune::launch
