#include "core/config/strategy_parts.h"

#include "core/base/text.h"

namespace memtune::config {

std::vector<std::string> split_parts(const std::string& strategy) {
  std::vector<std::string> parts;
  for (const std::string& piece : split(strategy, '+')) {
    const std::string name = trim(piece);
    if (parts.empty() || name == "none" || name.starts_with("checkpoint:") || name.starts_with("offload:"))
      parts.push_back(piece);
    else
      parts.back() += "+" + piece;
  }
  return parts;
}

}  // namespace memtune::config
