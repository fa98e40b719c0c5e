// XXH3-128 of bytes as 32 hexadecimal digits: keys of trials, identity of gradients. Not cryptographic.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace memtune {

std::string hash_hex(const void* data, size_t size);
inline std::string hash_hex(std::string_view text) { return hash_hex(text.data(), text.size()); }

}  // namespace memtune
