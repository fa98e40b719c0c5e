// A strategy as the person writes it, "family:mode[,key=value]*" with '+' between parts, checked against the table of
// strategies().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/plan/block_ranges.h"
#include "core/plan/strategy.h"

namespace memtune::plan {

struct StrategySpec {
  const StrategyInfo* info = nullptr;
  int64_t every = 1;                          // n of checkpoint:every=n
  std::map<std::string, std::string> values;  // every parameter of `info`; defaults are filled in

  bool is_checkpoint() const { return info->name.starts_with("checkpoint:"); }
  bool is_offload() const { return info->name.starts_with("offload:"); }
  bool has(const std::string& parameter) const { return values.count(parameter) > 0; }
  const std::string& value(const std::string& parameter) const { return values.at(parameter); }
  int64_t bytes(const std::string& parameter) const;
  int count(const std::string& parameter) const;
  double share(const std::string& parameter) const;
  config::Place place(const std::string& parameter) const;
  std::vector<std::string> list(const std::string& parameter) const;  // "a+b" as {"a", "b"}
  BlockRanges blocks() const;                                         // of what is no `none`
};

// The parts, at least one. UsageError as check_strategy's.
std::vector<StrategySpec> parse_strategy(const std::string& text);

}  // namespace memtune::plan
