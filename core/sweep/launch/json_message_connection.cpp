#include "core/sweep/launch/json_message_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/json.h"
#include "core/sweep/launch/socket.h"

namespace memtune::launch {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* kEnded = "it has ended";

// A reset also counts as a normal end: the peer may have closed with unread data.
std::string words_of(int error) {
  return error == ECONNRESET || error == EPIPE ? kEnded : std::generic_category().message(error);
}

}  // namespace

JsonMessageConnection::JsonMessageConnection(FileDescriptor socket, milliseconds timeout)
    : socket_(std::move(socket)), timeout_(timeout) {}

void JsonMessageConnection::send(const nlohmann::json& message) {
  const std::string line = print_json(message) + "\n";
  const auto end = Clock::now() + timeout_;
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
    } else if (errno != EAGAIN && errno != EINTR) {
      throw PeerLostError(words_of(errno));
    } else if (Clock::now() >= end) {
      throw PeerLostError("it no longer receives messages");
    } else {
      wait_until_ready(socket_.get(), POLLOUT, std::chrono::duration_cast<milliseconds>(end - Clock::now()));
    }
  }
}

bool JsonMessageConnection::is_writable() const { return wait_until_ready(socket_.get(), POLLOUT, milliseconds(0)); }

// Reads only until one message is complete. The rest stays in the socket buffer, so that the sender is slowed down.
void JsonMessageConnection::take() {
  std::array<char, 1 << 16> bytes;
  while (lost_.empty() && lines_.empty()) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) lost_ = words_of(errno);
    if (count == 0) lost_ = kEnded;
    if (count <= 0) return;
    const size_t before = buffer_.size();
    buffer_.append(bytes.data(), static_cast<size_t>(count));
    size_t start = 0;
    for (size_t end = buffer_.find('\n', before); end != std::string::npos; end = buffer_.find('\n', start)) {
      lines_.push_back(buffer_.substr(start, end - start));
      start = end + 1;
    }
    buffer_.erase(0, start);
    if (buffer_.size() > longest_) lost_ = "it sent a message without an end";
  }
}

bool JsonMessageConnection::next(nlohmann::json& message) {
  if (lines_.empty()) return false;
  received_bytes_ = lines_.front().size();
  if (received_bytes_ > longest_) throw PeerLostError("it sent a message that is too long");
  try {
    message = parse_json(lines_.front());
  } catch (const nlohmann::json::exception&) {
    throw PeerLostError("it sent an invalid message");
  }
  lines_.pop_front();
  if (!message.is_object()) throw PeerLostError("it sent an invalid message");
  return true;
}

bool JsonMessageConnection::receive(nlohmann::json& message) {
  take();
  if (next(message)) return true;
  if (!lost_.empty()) throw PeerLostError(lost_);
  return false;
}

bool JsonMessageConnection::receive(nlohmann::json& message, milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (!receive(message)) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left <= milliseconds(0)) return false;
    wait_until_ready(socket_.get(), POLLIN, left);
  }
  return true;
}

}  // namespace memtune::launch
