#include "core/base/message.h"

#include <algorithm>

namespace memtune {
namespace {

constexpr size_t kMaxAllocator = 4000;
constexpr std::string_view kLeftOut = " ... ";

bool is_within_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string bounded_message(std::string_view text, size_t most) {
  if (text.find("out of memory") != std::string_view::npos) most = std::max(most, kMaxAllocator);
  if (text.size() <= most) return std::string(text);
  size_t head = (most - kLeftOut.size()) / 2, tail = text.size() - (most - kLeftOut.size() - head);
  while (head > 0 && is_within_character(text[head])) --head;
  while (tail < text.size() && is_within_character(text[tail])) ++tail;
  return std::string(text.substr(0, head)) + std::string(kLeftOut) + std::string(text.substr(tail));
}

}  // namespace memtune
