// A strategy as the person writes it, "family:mode[,key=value]*", checked against the table of strategies().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/plan/strategy.h"

namespace memtune::plan {

struct StrategySpec {
  const StrategyInfo* info = nullptr;
  int64_t every = 1;                          // n of checkpoint:every=n
  std::map<std::string, std::string> values;  // every parameter of `info`; defaults are filled in

  const std::string& value(const std::string& parameter) const { return values.at(parameter); }
  int64_t bytes(const std::string& parameter) const;
  std::vector<std::string> list(const std::string& parameter) const;  // "a+b" as {"a", "b"}
};

// UsageError as check_strategy's.
StrategySpec parse_strategy(const std::string& text);

}  // namespace memtune::plan
