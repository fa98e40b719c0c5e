#include "core/base/message.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace memtune {
namespace {

constexpr size_t kMaxAllocator = 4000;
constexpr std::string_view kLeftOut = " ... ";

}  // namespace

std::string bounded_message(std::string_view text, size_t most) {
  if (text.find("out of memory") != std::string_view::npos) most = std::max(most, kMaxAllocator);
  if (text.size() <= most) return std::string(text);
  size_t head = (most - kLeftOut.size()) / 2, tail = text.size() - (most - kLeftOut.size() - head);
  while (head > 0 && continues_character(text[head])) --head;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return std::string(text.substr(0, head)) + std::string(kLeftOut) + std::string(text.substr(tail));
}

}  // namespace memtune
