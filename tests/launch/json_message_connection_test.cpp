// Why: ranks communicate only by these messages. A truncated, endless or foreign message must cause an error.
#include "core/sweep/launch/json_message_connection.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/sweep/launch/socket.h"
using namespace std::chrono_literals;

namespace memtune::launch::connection_test {
namespace {

using nlohmann::json;

std::pair<FileDescriptor, FileDescriptor> connected() {
  const TcpListener listener(true, 0);
  FileDescriptor one = connect("127.0.0.1", listener.port(), 5s);
  FileDescriptor other = listener.accept(5s);
  REQUIRE(one.get() >= 0);
  REQUIRE(other.get() >= 0);
  return {std::move(one), std::move(other)};
}

void write(const FileDescriptor& socket, const std::string& text) {
  REQUIRE(::send(socket.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
}

TEST_CASE("messages arrive complete and in order even if large") {
  auto [one, other] = connected();
  JsonMessageConnection from(std::move(one), 60s), to(std::move(other), 60s);
  const std::string large(8 << 20, 'x');
  std::thread sender([&] {
    from.send({{"n", 1}});
    from.send({{"large", large}});
    from.send({{"n", 2}});
  });
  json message;
  REQUIRE(to.receive(message, 60s));
  CHECK(message == json{{"n", 1}});
  REQUIRE(to.receive(message, 60s));
  CHECK(message.at("large").get<std::string>().size() == large.size());
  REQUIRE(to.receive(message, 60s));
  CHECK(message == json{{"n", 2}});
  sender.join();
  CHECK_FALSE(to.receive(message));
}

TEST_CASE("a closed connection is reported after all complete messages") {
  auto [one, other] = connected();
  JsonMessageConnection to(std::move(other), 5s);
  write(one, "{\"n\": 1}\n{\"n\": 2}\n{\"cut");
  one = FileDescriptor();
  json message;
  REQUIRE(to.receive(message, 5s));
  REQUIRE(to.receive(message, 5s));
  CHECK(message == json{{"n", 2}});
  CHECK_THROWS_WITH_AS(to.receive(message, 5s), "it has ended", PeerLostError);
}

TEST_CASE("anything but a JSON object on a line is an error") {
  for (const char* text : {"GET / HTTP/1.1\r\n", "[1]\n", "7\n", "\n", "{\"a\": 1\n"}) {
    auto [one, other] = connected();
    JsonMessageConnection to(std::move(other), 5s);
    write(one, text);
    json message;
    CHECK_THROWS_AS_MESSAGE(to.receive(message, 5s), PeerLostError, text);
  }
}

TEST_CASE("a peer that sends without end is not read beyond the requested message") {
  auto [one, other] = connected();
  constexpr size_t kAll = size_t{256} << 20;
  std::string text;
  while (text.size() < size_t{1} << 16) text += "{}\n";
  size_t sent = 0;
  std::thread sender([&sent, &text, socket = one.get()] {
    for (int idle = 0; sent < kAll && idle < 50;) {
      const ssize_t count = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      sent += static_cast<size_t>(std::max<ssize_t>(count, 0));
      idle = count > 0 ? 0 : idle + 1;
      if (count <= 0) std::this_thread::sleep_for(10ms);
    }
  });
  JsonMessageConnection to(std::move(other), 5s);
  json message;
  CHECK(to.receive(message, 5s));
  sender.join();
  CHECK(sent < kAll / 2);
}

TEST_CASE("a peer that does not read blocks the sender only until its timeout") {
  auto [one, other] = connected();
  JsonMessageConnection from(std::move(one), 200ms);
  const json large = {{"large", std::string(16 << 20, 'x')}};
  CHECK_THROWS_WITH_AS(from.send(large), "it no longer receives messages", PeerLostError);
}

TEST_CASE("connect retries until its timeout and reports an unknown host") {
  const auto start = std::chrono::steady_clock::now();
  int port = 0;
  { port = TcpListener(true, 0).port(); }
  CHECK(connect("127.0.0.1", port, 300ms).get() < 0);
  CHECK(std::chrono::steady_clock::now() - start >= 300ms);
  CHECK_THROWS_AS(connect("no.such.host.invalid", port, 100ms), UsageError);
  const TcpListener taken(true, 0);
  CHECK_THROWS_AS(TcpListener(true, taken.port()), IoError);
}

TEST_CASE("loopback addresses are recognized") {
  auto [one, other] = connected();
  CHECK(local_address(one.get()) == "127.0.0.1");
  CHECK(peer_address(other.get()) == "127.0.0.1");
  CHECK(address_towards("127.0.0.1", 9) == "127.0.0.1");
  for (const char* name : {"127.0.1.1", "::1", "localhost"}) CHECK(is_loopback(name));
  CHECK_FALSE(is_loopback("10.0.0.1"));
}

}  // namespace
}  // namespace memtune::launch::connection_test
