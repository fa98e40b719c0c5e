// Messages between two processes of one launch: one JSON object a line, over TCP.
#pragma once

#include <chrono>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::launch {

// The other end closed, broke off, says nothing that makes sense, or takes nothing.
class PeerLost : public Error {
 public:
  using Error::Error;
};

class Connection {
 public:
  // `socket` is connected and does not block; `patience` of the other end to take what is sent.
  Connection(Descriptor socket, std::chrono::milliseconds patience);

  void send(const nlohmann::json& message);  // PeerLost
  // What has come until now, taking what is there; false: nothing whole. PeerLost once all that came was received.
  bool receive(nlohmann::json& message);
  // The same, for which it waits.
  bool receive(nlohmann::json& message, std::chrono::milliseconds patience);

  bool takes_more() const;  // at once
  int socket() const { return socket_.get(); }

 private:
  void take();
  bool next(nlohmann::json& message);

  Descriptor socket_;
  std::chrono::milliseconds patience_;
  std::string buffer_;
  std::deque<std::string> lines_;
  std::string lost_;  // why; "": it is there
};

}  // namespace memtune::launch
