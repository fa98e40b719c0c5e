#include "core/sweep/launch/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>

#include "core/base/error.h"

namespace memtune::launch {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr milliseconds kAgain{100};  // between two attempts

milliseconds left_until(Clock::time_point end) {
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(end - Clock::now()));
}

void set(int socket, int level, int option, int value) { ::setsockopt(socket, level, option, &value, sizeof value); }

// Turns on TCP keepalive, which detects a peer machine that is gone.
void watch(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

// Non-blocking connect, so that a machine that does not answer cannot exceed the timeout.
FileDescriptor try_connect(const addrinfo& to, milliseconds timeout) {
  FileDescriptor socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (socket.get() < 0) return FileDescriptor();
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0) {
    int error = errno;
    socklen_t size = sizeof error;
    if (error != EINPROGRESS || !wait_until_ready(socket.get(), POLLOUT, timeout)) return FileDescriptor();
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return FileDescriptor();
  }
  watch(socket.get());
  return socket;
}

Addresses look_up(const std::string& host, int port, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {error == 0 ? found : nullptr, [](addrinfo* list) {
            if (list) ::freeaddrinfo(list);
          }};
}

// An IPv4 address may be mapped to IPv6, as in "::ffff:10.0.0.1".
std::string numeric(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "";
  const std::string name = text.data(), mapped = "::ffff:";
  return name.starts_with(mapped) ? name.substr(mapped.size()) : name;
}

template <class Address>
int listen_at(int family, Address& address) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (socket < 0) return -1;
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(socket, SOMAXCONN) == 0)
    return socket;
  const int error = errno;
  ::close(socket);
  errno = error;
  return -1;
}

// An abstract name begins with a zero byte and is no file.
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

FileDescriptor unix_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

bool wait_until_ready(int socket, short events, milliseconds timeout) {
  pollfd waiting{socket, events, 0};
  return ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(0, timeout.count()))) > 0;
}

TcpListener::TcpListener(bool loopback_only, int port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  four.sin_port = six.sin6_port;
  int socket = loopback_only ? -1 : listen_at(AF_INET6, six);
  if (socket < 0 && (loopback_only || errno != EADDRINUSE)) socket = listen_at(AF_INET, four);
  if (socket < 0) throw system_error("cannot listen at port " + std::to_string(port), errno);
  socket_ = FileDescriptor(socket);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

FileDescriptor TcpListener::accept(milliseconds timeout) const {
  if (!wait_until_ready(socket_.get(), POLLIN, timeout)) return FileDescriptor();
  return accept_now(socket_.get());
}

FileDescriptor accept_now(int listener) {
  FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() >= 0) watch(socket.get());  // fails for a Unix-domain socket, which needs none of it
  return socket;
}

FileDescriptor listen_here(const std::string& name) {
  FileDescriptor socket = unix_socket();
  sockaddr_un address;
  const socklen_t size = abstract_address(name, address);
  if (socket.get() < 0 || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    throw system_error("cannot listen at the local socket @" + name, errno);
  return socket;
}

FileDescriptor connect_here(const std::string& name, milliseconds timeout) {
  sockaddr_un address;
  const socklen_t size = abstract_address(name, address);
  for (const auto end = Clock::now() + timeout;;) {
    FileDescriptor socket = unix_socket();
    if (socket.get() >= 0 && ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        is_of_this_user(socket.get()))
      return socket;
    if (Clock::now() >= end) return FileDescriptor();
    std::this_thread::sleep_for(std::min(kAgain, left_until(end)));
  }
}

bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

FileDescriptor connect(const std::string& host, int port, milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (true) {
    int error = 0;
    const Addresses found = look_up(host, port, error);
    for (const addrinfo* address = found.get(); address; address = address->ai_next) {
      FileDescriptor socket = try_connect(*address, left_until(end));
      if (socket.get() >= 0) return socket;
    }
    if (Clock::now() >= end) {
      if (!found) throw UsageError("the machine of rank 0, '" + host + "', is unknown here: " + ::gai_strerror(error));
      return FileDescriptor();
    }
    std::this_thread::sleep_for(std::min(kAgain, left_until(end)));
  }
}

std::string address_towards(const std::string& host, int port) {
  int error = 0;
  const Addresses found = look_up(host, port, error);
  if (!found) return "";
  const FileDescriptor socket(
      ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));  // connect sends nothing
  if (socket.get() < 0 || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) return "";
  return local_address(socket.get());
}

std::string local_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? numeric(address, size) : "";
}

std::string peer_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? numeric(address, size) : "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

}  // namespace memtune::launch
