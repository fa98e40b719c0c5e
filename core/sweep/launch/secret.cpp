#include "core/sweep/launch/secret.h"

#include <sodium.h>

#include <array>

#include "core/base/error.h"

namespace memtune::launch {
namespace {

void prepare() {
  if (::sodium_init() < 0) throw Error("libsodium finds no source of random numbers");
}

template <size_t Size>
std::string in_hex(const std::array<unsigned char, Size>& bytes) {
  std::array<char, 2 * Size + 1> text;
  return ::sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
}

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

std::string make_nonce() {
  prepare();
  std::array<unsigned char, 32> bytes;
  ::randombytes_buf(bytes.data(), bytes.size());
  return in_hex(bytes);
}

std::string prove(std::string_view secret, std::string_view text) {
  prepare();
  crypto_auth_hmacsha256_state state;
  std::array<unsigned char, crypto_auth_hmacsha256_BYTES> proof;
  ::crypto_auth_hmacsha256_init(&state, bytes_of(secret), secret.size());
  ::crypto_auth_hmacsha256_update(&state, bytes_of(text), text.size());
  ::crypto_auth_hmacsha256_final(&state, proof.data());
  return in_hex(proof);
}

bool is_proof(std::string_view proof, std::string_view secret, std::string_view text) {
  const std::string expected = prove(secret, text);
  return proof.size() == expected.size() && ::sodium_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

}  // namespace memtune::launch
