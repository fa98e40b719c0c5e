// How figures came to be: asked for what, when, with which versions, on what machine. What is not known is empty.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace memtune::trace {

struct Origin {
  std::string written;  // "2026-11-22T07:30:00Z"
  std::string command;  // as a person typed it
  std::string model;
  std::string memtune, torch, driver;  // versions
  std::string machine;
};

void to_json(nlohmann::json& json, const Origin& origin);
void from_json(const nlohmann::json& json, Origin& origin);

std::string utc_now();  // for Origin::written

}  // namespace memtune::trace
